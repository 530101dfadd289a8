"""Rationales for texts that have none, from a language model under people's control (ExpNet, appendix A).

explearn.predictors.llm          the server: its address, sending requests within the budget, keeping answers
llm.prompts, answers, quotes     prompts, parsing of answers, matching of quotes to words
llm.rationales                   asking each question at most once; answers to rationales
llm.calibrate                    models and prompts compared with people's marks
task, people                     marks, verdicts and decisions by people
command                          `explearn annotate`
"""
