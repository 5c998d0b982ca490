// Asks for a configuration that answers a person's questions about their application (pure).
import * as z from 'zod'
import { AttributeSchemas } from './attributes.schema.ts'
import { cleanLine } from './clean-text.ts'
import {
  describeContext,
  listItems,
  objectSchema,
  parseAnswer,
  type Question,
  RULES,
  UnusableAnswer,
} from './question.ts'
import { findTemplateFault } from './summary-template.ts'

const MAX_NAME = 80
const MAX_PROMPT = 8000

export type GeneratedConfig = { name: string; summary_prompt: string; attribute_schemas: AttributeSchemas }

const Answer = z.object({
  name: z.string().min(1),
  summary_prompt: z.string().min(1).max(MAX_PROMPT),
  attributes: z
    .array(
      z.object({
        name: z.string(),
        type: z.string(),
        description: z.string().nullish(),
        filter_by: z.boolean().nullish(),
      }),
    )
    .default([]),
})

/** `examples` are the beginnings of inputs and outputs of some traces. */
export const askForConfig = (
  user_context: Record<string, string> | null | undefined,
  examples: { inputs: string; outputs: string }[],
  boundary: string,
): Question<GeneratedConfig> => ({
  name: 'insights_config',
  system: [
    'You set up a report about the executions of an application. First, another model summarizes each execution by ' +
      '`summary_prompt`, and fills in `attributes`. Then the summaries are sorted into clusters.',
    '`summary_prompt` is an instruction with variables of Mustache: {{run.inputs}}, {{run.outputs}}, {{run.error}}, ' +
      '{{run.feedback}} and {{all_thread_messages}}, and parts such as {{run.inputs.messages}}. It has at least ' +
      'one of them, and says what a summary shall tell.',
    '`attributes` are up to five facts about one execution that help to answer the questions. Their names have small ' +
      'letters, digits and _, their types are string, number or boolean. `filter_by` is for a boolean without ' +
      'which an execution does not belong in the report.',
    RULES(boundary),
    describeContext(user_context),
  ].join('\n'),
  content: `Executions of the application:\n${listItems(examples, boundary)}`,
  schema: objectSchema({
    name: { type: 'string' },
    summary_prompt: { type: 'string' },
    attributes: {
      type: 'array',
      items: objectSchema({
        name: { type: 'string' },
        type: { type: 'string', enum: ['string', 'number', 'boolean'] },
        description: { type: 'string' },
        filter_by: { type: 'boolean' },
      }),
    },
  }),
  max_tokens: 4000,
  read: answer => {
    const { name, summary_prompt, attributes } = parseAnswer(Answer, answer)
    const fault = findTemplateFault(summary_prompt)
    if (fault) throw new UnusableAnswer(`answer.summary_prompt: ${fault}.`)
    if (!summary_prompt.includes('{{')) throw new UnusableAnswer('answer.summary_prompt: has no variable.')
    const schemas = attributes.map(({ name, filter_by, ...schema }) => [
      name,
      { ...schema, ...(filter_by && schema.type === 'boolean' && { filter_by }) },
    ])
    return {
      name: cleanLine(name, MAX_NAME),
      summary_prompt,
      attribute_schemas: parseAnswer(AttributeSchemas, Object.fromEntries(schemas)),
    }
  },
})
