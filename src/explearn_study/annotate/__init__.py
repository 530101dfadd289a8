"""Rationales for texts that have none, by a language model under people's control (ExpNet, appendix A).

llm.endpoint, transport, client  one server: where, how requests reach it within the budget, what it does not take
llm.prompts, answers, quotes     what is asked, what came back, which words of the text it means
llm.cache, asking                every answer kept once, asked at most once
llm.collecting, calibrate        answers to rationales; models and prompts against people's marks
store, people                    what people add: marks, verdicts, decisions
command                          `explearn annotate`
"""
