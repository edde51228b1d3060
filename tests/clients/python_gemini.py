"""Gemini over plain HTTP in each of its three forms, and with the official SDK."""

import json
import urllib.request

from google import genai
from google.genai import types

import cases

BODY = {"contents": [{"role": "user", "parts": [{"text": "Hello"}]}]}


def post(path, **headers):
    request = urllib.request.Request(
        f"{cases.URL}{path}",
        data=json.dumps(BODY).encode(),
        headers={"content-type": "application/json", **headers},
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        return answer.read().decode()


def text_of(chunks):
    parts = [part for chunk in chunks for candidate in chunk["candidates"] for part in candidate["content"]["parts"]]
    assert chunks[-1]["candidates"][0]["finishReason"] == "STOP"
    return "".join(part.get("text", "") for part in parts)


def raw_gemini(provider):
    body = post(f"/proxy/{provider}/v1beta/models/{cases.MODEL}:generateContent", **{"x-goog-api-key": cases.KEY})
    return text_of([json.loads(body)])


def raw_gemini_sse(provider):
    path = f"/v1beta/models/{provider}/{cases.MODEL}:streamGenerateContent?alt=sse&key={cases.KEY}"
    lines = [line for line in post(path).splitlines() if line.startswith("data:")]
    return text_of([json.loads(line[5:]) for line in lines])


def raw_gemini_array(provider):
    path = f"/proxy/{provider}/v1beta/models/{cases.MODEL}:streamGenerateContent?key={cases.KEY}"
    return text_of(json.loads(post(path)))


def sdk(provider):
    options = types.HttpOptions(base_url=f"{cases.URL}/proxy/{provider}", retry_options=types.HttpRetryOptions(attempts=1))
    return genai.Client(api_key=cases.KEY, http_options=options)


def sdk_gemini(provider):
    client = sdk(provider)
    return client.models.generate_content(model=cases.MODEL, contents="Hello").text


def sdk_gemini_stream(provider):
    client = sdk(provider)
    stream = client.models.generate_content_stream(model=cases.MODEL, contents="Hello")
    return "".join(chunk.text or "" for chunk in stream)


if __name__ == "__main__":
    cases.run([raw_gemini, raw_gemini_sse, raw_gemini_array, sdk_gemini, sdk_gemini_stream])
