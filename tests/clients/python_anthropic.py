"""The official Anthropic Python SDK, without retries of its own."""

from anthropic import Anthropic

import cases

ASKED = {"max_tokens": 64, "messages": [{"role": "user", "content": "Hello"}]}


def own(provider):
    return Anthropic(base_url=f"{cases.URL}/proxy/{provider}", api_key=cases.KEY, max_retries=0)


def unified():
    """The key travels as a bearer token here, as agents send it."""
    return Anthropic(base_url=cases.URL, auth_token=cases.KEY, max_retries=0)


def python_messages(provider):
    answer = own(provider).messages.create(model=cases.MODEL, **ASKED)
    assert answer.stop_reason == "end_turn"
    return answer.content[0].text


def python_messages_stream(provider):
    with unified().messages.stream(model=f"{provider}/{cases.MODEL}", **ASKED) as stream:
        text = "".join(stream.text_stream)
        assert stream.get_final_message().stop_reason == "end_turn"
    return text


def python_messages_count(provider):
    count = own(provider).messages.count_tokens(model=cases.MODEL, messages=ASKED["messages"])
    return str(count.input_tokens)


if __name__ == "__main__":
    cases.run([python_messages, python_messages_stream, python_messages_count])
