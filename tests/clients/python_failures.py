"""What the official Python SDKs, with their own retries on, make of failures that no key can mend."""

import anthropic
import openai

import cases

MESSAGES = [{"role": "user", "content": "Hello"}]


def chat(provider):
    client = openai.OpenAI(base_url=f"{cases.URL}/proxy/{provider}/v1", api_key=cases.KEY)
    return client.chat.completions, client.responses


def messages(provider):
    return anthropic.Anthropic(base_url=f"{cases.URL}/proxy/{provider}", api_key=cases.KEY).messages


def refusal(call, **asked):
    """The error that the call raises."""
    try:
        call(model=cases.MODEL, **asked)
    except (openai.APIStatusError, anthropic.APIStatusError) as error:
        return error
    raise AssertionError("the call succeeded")


def chat_refusal(provider):
    return refusal(chat(provider)[0].create, messages=MESSAGES)


def messages_refusal(provider):
    return refusal(messages(provider).create, messages=MESSAGES, max_tokens=64)


def stopped(error, status):
    """The error has this status, and told the library not to try again."""
    assert error.status_code == status, error
    assert error.response.headers["x-should-retry"] == "false", error.response.headers
    return f"{type(error).__name__} {error.message}"


def limited_chat(provider):
    error = chat_refusal(provider)
    assert int(error.response.headers["retry-after"]) > 3000
    return stopped(error, 429)


def limited_messages(provider):
    error = messages_refusal(provider)
    assert error.response.headers["anthropic-ratelimit-unified-status"] == "rejected"
    assert error.type == "rate_limit_error", error.type
    return stopped(error, 429)


def dead_chat(provider):
    return stopped(chat_refusal(provider), 502)


def dead_messages(provider):
    return stopped(messages_refusal(provider), 502)


def overflow_chat(provider):
    error = chat_refusal(provider)
    assert error.code == "context_length_exceeded", error.code
    return stopped(error, 400)


def overflow_messages(provider):
    error = messages_refusal(provider)
    assert "prompt is too long" in error.message, error.message
    return stopped(error, 400)


def broken(stream, pieces):
    """The stream gave text, and then ended with an error and not in peace."""
    text = ""
    try:
        for event in stream:
            text += pieces(event) or ""
    except (openai.APIError, anthropic.APIError) as error:
        assert text, "the error came before any text"
        return f"{text!r}, then {type(error).__name__} {error.message}"
    raise AssertionError("the stream ended as if it were whole")


def python_cut_chat(provider):
    stream = chat(provider)[0].create(model=cases.MODEL, messages=MESSAGES, stream=True)
    return broken(stream, lambda chunk: chunk.choices and chunk.choices[0].delta.content)


def python_cut_responses(provider):
    text, failure = "", None
    try:
        for event in chat(provider)[1].create(model=cases.MODEL, input="Hello", stream=True):
            text += event.delta if event.type == "response.output_text.delta" else ""
            failure = event if event.type == "response.failed" else failure
            assert event.type != "response.completed"
    except Exception:  # the connection closes behind the event
        pass
    assert text and failure, "no failure was told"
    return f"{text!r}, then {failure.response.error.code} as event {failure.sequence_number}"


def python_cut_messages(provider):
    stream = messages(provider).create(model=cases.MODEL, messages=MESSAGES, max_tokens=64, stream=True)
    return broken(stream, lambda event: event.type == "content_block_delta" and event.delta.text)


if __name__ == "__main__":
    cases.run(
        [
            limited_chat,
            limited_messages,
            dead_chat,
            dead_messages,
            overflow_chat,
            overflow_messages,
            python_cut_chat,
            python_cut_responses,
            python_cut_messages,
        ]
    )
