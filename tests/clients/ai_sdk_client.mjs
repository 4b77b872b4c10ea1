// `ai` with its provider `@ai-sdk/openai-compatible`: an agent of two steps, a call that is
// compelled and an answer, which runs the tool and sends its result by itself.
//
// node ai_sdk_client.mjs TASK, where TASK is the JSON of {baseURL, model, system, prompt, tools,
// result, answerChoice}. Prints {plain, streamed}, each a list of steps, and the stream's `errors`.

import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, jsonSchema, stepCountIs, streamText, tool } from "ai";

const { baseURL, model, system, prompt, tools, result, answerChoice } = JSON.parse(process.argv[2]);
const provider = createOpenAICompatible({ name: "pantheon", baseURL, includeUsage: true });
const asked = {
  model: provider.chatModel(model),
  system,
  prompt,
  temperature: 0,
  maxRetries: 0,
  tools: Object.fromEntries(
    tools.map(({ function: { name, description, parameters } }) => [
      name,
      tool({ description, inputSchema: jsonSchema(parameters), execute: async () => result }),
    ]),
  ),
  maxOutputTokens: 200,
  stopWhen: stepCountIs(2),
  prepareStep: ({ stepNumber }) => ({ toolChoice: stepNumber === 0 ? "required" : answerChoice }),
};

const told = (steps) =>
  steps.map(({ finishReason, text, toolCalls, toolResults, usage, warnings }) => ({
    finishReason,
    text,
    calls: toolCalls.map(({ toolCallId: id, toolName: name, input, invalid = false }) => ({
      id,
      name,
      input,
      invalid,
    })),
    results: toolResults.map(({ toolCallId: id, output }) => ({ id, output })),
    totalTokens: usage.totalTokens,
    warnings: warnings ?? [],
  }));

const plain = told((await generateText(asked)).steps);

const errors = [];
const stream = streamText({ ...asked, onError: ({ error }) => errors.push(String(error)) });
const streamed = told(await stream.steps);

console.log(JSON.stringify({ plain, streamed, errors }));
