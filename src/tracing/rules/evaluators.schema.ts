// Schemas of evaluators: a prompt, a model that answers it, and the meaning of its answer.
import * as z from 'zod'
import { all, hasAll } from '../../protocol/conditions.ts'
import { arrayOf, boundedText, recordOf, Uuid } from '../../protocol/wire.ts'
import { JsonObject, storableText } from '../runs/list-parameters.schema.ts'

export const MAX_EVALUATORS = 5
export const MAX_PROMPT_LENGTH = 20_000
const TEMPLATE_FORMATS = ['mustache', 'f-string'] as const
export type TemplateFormat = (typeof TEMPLATE_FORMATS)[number]

const ROLES = { system: 'system', user: 'user', human: 'user', assistant: 'assistant', ai: 'assistant' } as const
const Role = z.enum(['system', 'user', 'human', 'assistant', 'ai']).transform(role => ROLES[role])
const Message = z.tuple([Role, storableText(MAX_PROMPT_LENGTH)])

/** Clients send these members with an empty value. */
export const notSupported = (instead: string) =>
  z
    .unknown()
    .refine(value => !value || (Array.isArray(value) && value.length === 0), {
      error: `is not supported. ${instead}`,
    })
    .optional()
    .meta({ deprecated: true, description: `Not supported. ${instead}`, enum: [null, false, 0, '', []] })

const VariableMapping = recordOf(boundedText(256), storableText(1024), 50)

export const promptShape = {
  playground_settings_id: Uuid.nullish()
    .refine(id => id != null, {
      error: 'is required: the id of a model configuration. GET /v1/model-configurations lists them',
    })
    .transform(id => id!)
    .meta({ description: 'The id of a model configuration.' }),
  prompt: arrayOf(Message, 20, 1).meta({
    description: [
      'Pairs of a role (`system`, `user` or `assistant`) and a template. Its variables are `input`, `output`,',
      '`reference` (the outputs of the example), `metadata`, `error`, `name` and `run_type` of the run, places within',
      'them, such as `input.question`, and those of `variable_mapping`.',
    ].join(' '),
  }),
  schema: JsonObject.meta({
    description: [
      'The JSON schema of the answer, an object. Each property becomes feedback with its name as the key: booleans',
      'and numbers are its score, texts its value. `comment` and `reasoning` are the comment of the others.',
    ].join(' '),
  }),
  template_format: z
    .enum(TEMPLATE_FORMATS)
    .nullish()
    .transform(format => format ?? ('f-string' as const))
    .meta({ description: 'By default `f-string`.' }),
  variable_mapping: VariableMapping.nullish()
    .transform(mapping => mapping ?? {})
    .meta({ description: 'Where the variables are in a run: `{"question": "input.messages.0.content"}`.' }),
}

/** Members have no defaults, because absent ones stay as they are. */
export const promptPatchShape = {
  playground_settings_id: Uuid.optional(),
  prompt: promptShape.prompt.optional(),
  schema: promptShape.schema.optional(),
  template_format: z.enum(TEMPLATE_FORMATS).optional(),
  variable_mapping: VariableMapping.nullish(),
}

/** Null and an absent member get the same sentence. */
export const NEEDS_MODEL = all(hasAll('playground_settings_id'))

const Structured = z
  .object({
    ...promptShape,
    model: JsonObject.nullish().meta({ deprecated: true, description: 'The model is that of the configuration.' }),
    hub_ref: notSupported('Send `prompt` and `schema`.'),
  })
  .meta(NEEDS_MODEL)
  .transform(({ model: _, hub_ref: __, ...judge }) => judge)
export type Structured = z.output<typeof Structured>

export const Evaluator = z.object({ structured: Structured }).meta({
  id: 'RunRuleEvaluator',
  description: 'A prompt that a model of the workspace answers for each run. The answer becomes feedback.',
})

export const ShownStructured = z.object({
  playground_settings_id: Uuid,
  prompt: z.array(z.tuple([z.string(), z.string()])),
  schema: JsonObject,
  template_format: z.enum(TEMPLATE_FORMATS),
  variable_mapping: z.record(z.string(), z.string()),
})
export const ShownEvaluator = z.object({ structured: ShownStructured }).meta({ id: 'ShownRunRuleEvaluator' })

export const EVALUATOR_EXAMPLE = {
  structured: {
    playground_settings_id: '5d41402a-bc4b-4a76-b971-9d911017c592',
    prompt: [['user', 'Question: {{input.question}} Answer: {{output.answer}} Does the answer help?']],
    template_format: 'mustache',
    schema: {
      title: 'helpfulness',
      type: 'object',
      properties: { helpful: { type: 'boolean' }, comment: { type: 'string' } },
      required: ['helpful', 'comment'],
    },
  },
}
