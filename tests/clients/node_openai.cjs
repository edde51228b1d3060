// The official OpenAI Node SDK, without retries of its own.
'use strict';

const { key, library, model, run, url } = require('./node_cases.cjs');
const { OpenAI } = library('openai');

const messages = [{ role: 'user', content: 'Hello' }];
const own = (provider) => new OpenAI({ baseURL: `${url}/proxy/${provider}/v1`, apiKey: key, maxRetries: 0 });
const unified = () => new OpenAI({ baseURL: `${url}/v1`, apiKey: key, maxRetries: 0 });

run({
  'node-chat': async (provider) => {
    const answer = await own(provider).chat.completions.create({ model, messages });
    return answer.choices[0].message.content;
  },
  'node-chat-stream': async (provider) => {
    const asked = { model: `${provider}/${model}`, messages, stream: true };
    let text = '';
    let finish = null;
    for await (const chunk of await unified().chat.completions.create(asked)) {
      text += chunk.choices[0]?.delta?.content ?? '';
      finish = chunk.choices[0]?.finish_reason ?? finish;
    }
    if (finish !== 'stop') throw new Error(`finish reason ${finish}`);
    return text;
  },
  'node-responses': async (provider) => {
    const answer = await own(provider).responses.create({ model, input: 'Hello' });
    return answer.output_text;
  },
  'node-responses-stream': async (provider) => {
    const stream = unified().responses.stream({ model: `${provider}/${model}`, input: 'Hello' });
    let text = '';
    stream.on('response.output_text.delta', (event) => (text += event.delta));
    const answer = await stream.finalResponse();
    if (answer.status !== 'completed') throw new Error(`status ${answer.status}`);
    return text;
  },
});
