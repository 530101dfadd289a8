"""Rationales for texts that have none, by a language model under people's control (ExpNet, appendix A).

endpoint, budget, client    one chat endpoint: where, how much at most, how it is asked
prompts, answers, alignment what is asked, what came back, which words of the text it means
cache, asking               every answer kept once, asked at most once
collecting, calibrate       answers to rationales; models and prompts against people's marks
store, sheets, label_studio what people add: marks, verdicts, decisions
commands, cli               `explearn annotate`
"""
