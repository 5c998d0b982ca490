// Schemas of evaluators: a prompt, a model that answers it, and what its answer says of a run.
import * as z from 'zod'
import { arrayOf, boundedText, recordOf, Uuid } from '../protocol/wire.ts'
import { MAX_KEY_LENGTH } from '../traces/feedback.schema.ts'
import { JsonObject, storableText } from '../traces/query.schema.ts'
import { listVariables, parseTemplate, TEMPLATE_FORMATS, TemplateError } from './prompt-template.ts'
import { isRunPath, MEMBER_NAMES, pathOf } from './run-variables.ts'
import { type JudgementSchema, kindOf, listKeys } from './verdicts.ts'

export const MAX_EVALUATORS = 5
const MAX_MESSAGES = 20
const MAX_PROPERTIES = 20
const MAX_PROMPT_LENGTH = 20_000
const MAX_SCHEMA_LENGTH = 10_000

const ROLES = { system: 'system', user: 'user', human: 'user', assistant: 'assistant', ai: 'assistant' } as const
const Role = z.enum(['system', 'user', 'human', 'assistant', 'ai']).transform(role => ROLES[role])
const Message = z.tuple([Role, storableText(MAX_PROMPT_LENGTH)])

/** Clients send these members with the value that stands for nothing. */
export const notSupported = (instead: string) =>
  z
    .unknown()
    .refine(value => !value || (Array.isArray(value) && value.length === 0), {
      error: `is not supported. ${instead}`,
    })
    .optional()
    .meta({ deprecated: true, description: `Not supported. ${instead}` })

const VariableMapping = recordOf(boundedText(256), storableText(1024), 50)
  .nullish()
  .meta({ description: 'Where the variables of the prompt are in a run: `{"question": "input.messages.0.content"}`.' })

export const promptShape = {
  prompt: arrayOf(Message, MAX_MESSAGES, 1).meta({
    description:
      'Pairs of a role (`system`, `user` or `assistant`) and a template. ' +
      `Variables are ${MEMBER_NAMES.map(name => `\`${name}\``).join(', ')}, places within them, ` +
      'such as `input.question`, and those of `variable_mapping`.',
  }),
  schema: JsonObject.meta({
    description:
      'The JSON schema of the answer, an object. Each property becomes feedback with its name as the key: booleans ' +
      'and numbers its score, texts its value. `comment` and `reasoning` are the comment of the others.',
  }),
  template_format: z
    .enum(TEMPLATE_FORMATS)
    .nullish()
    .transform(format => format ?? 'f-string'),
  variable_mapping: VariableMapping,
}

type Issues = z.core.$ZodRawIssue[]
type Prompt = z.output<z.ZodObject<typeof promptShape>>
const addIssue = (issues: Issues, path: PropertyKey[], message: string) =>
  issues.push({ code: 'custom', path, message, input: undefined })

/** All faults of a prompt and its schema. */
export function checkPrompt({ prompt, schema, template_format, variable_mapping }: Prompt, issues: Issues): void {
  const mapping = variable_mapping ?? {}
  let variables = 0
  if (prompt.reduce((length, [, text]) => length + text.length, 0) > MAX_PROMPT_LENGTH)
    addIssue(issues, ['prompt'], `must have at most ${MAX_PROMPT_LENGTH} characters together`)
  prompt.forEach(([, text], i) => {
    try {
      const { required, sections } = listVariables(parseTemplate(text, template_format))
      variables += required.length + sections.length
      const unknown = [...required, ...sections].filter(name => pathOf(name, mapping) === undefined)
      if (unknown.length > 0)
        addIssue(
          issues,
          ['prompt', i, 1],
          `has variables that nothing says: ${unknown.slice(0, 5).join(', ')}. ` +
            `Add them to \`variable_mapping\`, or use ${MEMBER_NAMES.join(', ')}`,
        )
    } catch (error) {
      if (!(error instanceof TemplateError)) throw error
      addIssue(issues, ['prompt', i, 1], error.message)
    }
  })
  if (variables === 0 && issues.length === 0)
    addIssue(
      issues,
      ['prompt'],
      `has no variable, so it is the same for every run. Use ${template_format === 'mustache' ? '{{output}}' : '{output}'}`,
    )
  for (const [name, path] of Object.entries(mapping))
    if (!isRunPath(path))
      addIssue(issues, ['variable_mapping', name], `must begin with one of ${MEMBER_NAMES.join(', ')}`)
  checkSchema(schema as JudgementSchema, issues)
}

function checkSchema(schema: JudgementSchema & { type?: unknown }, issues: Issues): void {
  const text = JSON.stringify(schema)
  const { type, properties } = schema
  if (text.length > MAX_SCHEMA_LENGTH || /\\u(?:0000|d[89a-f])/i.test(text))
    return void addIssue(
      issues,
      ['schema'],
      `must have at most ${MAX_SCHEMA_LENGTH} characters as JSON, without NUL characters and lone surrogates`,
    )
  if ((type !== undefined && type !== 'object') || typeof properties !== 'object' || properties === null)
    return void addIssue(issues, ['schema', 'properties'], 'is required: what the answer says, property by property')
  const names = Object.keys(properties)
  for (const name of names)
    if (kindOf(properties[name]) === undefined)
      addIssue(issues, ['schema', 'properties', name], 'must be of the type boolean, number, integer or string')
    else if (name === '' || name.length > MAX_KEY_LENGTH)
      addIssue(
        issues,
        ['schema', 'properties', name.slice(0, 40)],
        `must have a name of at most ${MAX_KEY_LENGTH} characters`,
      )
  const keys = listKeys(schema)
  if (keys.length === 0 || names.length > MAX_PROPERTIES)
    addIssue(
      issues,
      ['schema', 'properties'],
      `must have from 1 to ${MAX_PROPERTIES} properties, of which one is more than a comment`,
    )
}

const MODEL_NEEDED = 'is required: the id of a model configuration. GET /v1/model-configurations lists them'

const Structured = z
  .object({
    playground_settings_id: Uuid.nullish().meta({ description: 'Required. The id of a model configuration.' }),
    ...promptShape,
    model: JsonObject.nullish().meta({ deprecated: true, description: 'The model is that of the configuration.' }),
    hub_ref: notSupported('Send `prompt` and `schema`.'),
  })
  .check(({ value, issues }) => {
    if (!value.playground_settings_id) addIssue(issues, ['playground_settings_id'], MODEL_NEEDED)
    checkPrompt(value, issues)
  })
  .transform(({ playground_settings_id, prompt, schema, template_format, variable_mapping }) => ({
    playground_settings_id: playground_settings_id!,
    ...{ prompt, schema, template_format, variable_mapping: variable_mapping ?? {} },
  }))

export const Evaluator = z.object({ structured: Structured }).meta({
  id: 'RunRuleEvaluator',
  description: 'A prompt that a model of the workspace answers for each run. The answer becomes feedback.',
})
export type Evaluator = z.output<typeof Evaluator>
export type Structured = Evaluator['structured']

export const EVALUATOR_EXAMPLE = {
  structured: {
    playground_settings_id: '5d41402a-bc4b-4a76-b971-9d911017c592',
    prompt: [
      ['system', 'You judge whether an answer helps.'],
      ['user', 'Question: {{input.question}}\nAnswer: {{output.answer}}'],
    ],
    template_format: 'mustache',
    schema: {
      title: 'helpfulness',
      type: 'object',
      properties: { helpful: { type: 'boolean' }, comment: { type: 'string' } },
      required: ['helpful', 'comment'],
    },
  },
}

/** As it is shown. */
export const ShownEvaluator = z
  .object({
    structured: z.object({
      playground_settings_id: Uuid,
      prompt: z.array(z.tuple([z.string(), z.string()])),
      schema: JsonObject,
      template_format: z.enum(TEMPLATE_FORMATS),
      variable_mapping: z.record(z.string(), z.string()),
    }),
  })
  .meta({ id: 'RunRuleEvaluatorShown' })
