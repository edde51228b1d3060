"""The official OpenAI Python SDK, without retries of its own: what fails upstream must be mended by the gateway."""

from openai import OpenAI

import cases

MESSAGES = [{"role": "user", "content": "Hello"}]


def own(provider):
    """A client of one provider's own path."""
    return OpenAI(base_url=f"{cases.URL}/proxy/{provider}/v1", api_key=cases.KEY, max_retries=0)


def unified():
    """A client of the path that all providers share; the model names the provider."""
    return OpenAI(base_url=f"{cases.URL}/v1", api_key=cases.KEY, max_retries=0)


def python_chat(provider):
    answer = own(provider).chat.completions.create(model=cases.MODEL, messages=MESSAGES)
    assert answer.choices[0].finish_reason == "stop"
    return answer.choices[0].message.content


def python_chat_stream(provider):
    stream = unified().chat.completions.create(
        model=f"{provider}/{cases.MODEL}",
        messages=MESSAGES,
        stream=True,
        stream_options={"include_usage": True},
    )
    text, finish, usage = "", None, None
    for chunk in stream:
        usage = chunk.usage or usage
        for choice in chunk.choices:
            text += choice.delta.content or ""
            finish = choice.finish_reason or finish
    assert finish == "stop", finish
    assert usage is not None
    return text


def python_completions(provider):
    return own(provider).completions.create(model=cases.MODEL, prompt="Hello").choices[0].text


def python_responses(provider):
    answer = own(provider).responses.create(model=cases.MODEL, input="Hello")
    assert answer.status == "completed"
    return answer.output_text


def python_responses_stream(provider):
    text, last, numbers = "", None, []
    for event in unified().responses.create(model=f"{provider}/{cases.MODEL}", input="Hello", stream=True):
        last = event.type
        numbers.append(event.sequence_number)
        if event.type == "response.output_text.delta":
            text += event.delta
    assert last == "response.completed", last
    assert numbers == sorted(set(numbers)), numbers
    return text


def python_embeddings(provider):
    return str(own(provider).embeddings.create(model=cases.MODEL, input="Hello").data[0].embedding[:1])


if __name__ == "__main__":
    cases.run(
        [
            python_chat,
            python_chat_stream,
            python_completions,
            python_responses,
            python_responses_stream,
            python_embeddings,
        ]
    )
