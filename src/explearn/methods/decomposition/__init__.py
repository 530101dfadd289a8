"""Methods that split hidden states into one vector for each input token, without gradients."""
