"""Rationales for texts that have none, from a language model under people's control (ExpNet, appendix A).

explearn.predictors.llm          the server: its address, sending requests within the budget, keeping answers
llm.prompts, answers, quotes     prompts, parsing of answers, matching of quotes to words
llm.questions                    asking each question at most once
llm.rationales, calibrate        answers to rationales; models and prompts compared with people's marks
store, people                    marks, verdicts and decisions by people
command                          `explearn annotate`
"""
