"""L2E: a small network that learns to explain from the explanations of any other method.

Source: Situ, Zukerman, Paris, Maruf, Haffari (2021), "Learning to Explain: Generating Stable Explanations Fast".
"""
