// The client `openai`: a call that is compelled, streamed and not, and the answer to its result.
//
// node openai_client.mjs TASK, where TASK is the JSON of {baseURL, model, system, prompt, tools,
// result, answerChoice}. Prints {plain, streamed, answer}, each the choice that the client returns.

import OpenAI from "openai";

const { baseURL, model, system, prompt, tools, result, answerChoice } = JSON.parse(process.argv[2]);
const client = new OpenAI({ baseURL, apiKey: "unused", maxRetries: 0 });
const asked = { model, tools, temperature: 0, max_tokens: 200 };
const messages = [
  { role: "system", content: system },
  { role: "user", content: prompt },
];
const compelled = { ...asked, messages, tool_choice: "required" };

const plain = (await client.chat.completions.create(compelled)).choices[0];
const streamed = (await client.chat.completions.stream(compelled).finalChatCompletion()).choices[0];

const results = streamed.message.tool_calls.map((call) => ({
  role: "tool",
  tool_call_id: call.id,
  content: result,
}));
const continued = { ...asked, messages: [...messages, streamed.message, ...results] };
const answer = (
  await client.chat.completions.create({ ...continued, tool_choice: answerChoice, max_tokens: 24 })
).choices[0];

console.log(JSON.stringify({ plain, streamed, answer }));
