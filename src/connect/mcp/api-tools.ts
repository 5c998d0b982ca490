// The tools for the rest of the API: a search of its operations, and reads of any of them.
import * as z from 'zod'
import type { KeyedOperation, Operation } from '../../kernel/http/routes.ts'
import { ToolFailure } from './answers.ts'
import { isListOfScalars, MAX_UNKNOWN, type Tool, tool } from './tool.ts'

/** Reads whose answer is JSON. Credentials in it are masked, as in all that tools read. */
const isReadable = (one: Operation): boolean => one.kind === 'json' && one.method === 'get' && one.reply !== undefined

/** These show secrets, or make the answer another one. */
const REFUSED_PARAMETERS = ['reveal', 'dry_run']

type Parameter = { name: string; required: boolean; description?: string }

const listParameters = ({ params, query }: Operation): Parameter[] => [
  ...Object.keys(params?.shape ?? {}).map(name => ({ name, required: true })),
  ...Object.entries(query?.shape ?? {})
    .filter(([name]) => !REFUSED_PARAMETERS.includes(name))
    .map(([name, schema]) => {
      const { description } = z.toJSONSchema(schema as z.ZodType, { io: 'output', unrepresentable: 'any' })
      const required = !(schema as z.ZodType).safeParse(undefined).success
      return { name, required, ...(description && { description }) }
    }),
]

const describeOperation = (operation: KeyedOperation) => ({
  operation: operation.id,
  method: operation.method.toUpperCase(),
  path: operation.path,
  summary: operation.summary,
  ...(operation.description && { description: operation.description }),
  permission: operation.verb.permission,
  read_api: isReadable(operation),
  parameters: listParameters(operation),
})

const wordsOf = (text: string): string[] =>
  text
    .replace(/([a-z])([A-Z])/g, '$1 $2')
    .toLowerCase()
    .split(/[^a-z0-9]+/)
    .filter(word => word.length > 1)

const WEIGHTS = { id: 4, summary: 3, path: 2, tag: 2, description: 1 }

/** A word matches one that it begins, and without its plural ending. */
const matches = (wanted: string, word: string) => word.startsWith(wanted.replace(/(ies|es|s)$/, ''))

function scoreOf(operation: Operation, wanted: string[]): number {
  const texts = { ...operation, tag: operation.tag.name, description: operation.description ?? '' }
  let score = 0
  for (const [part, weight] of Object.entries(WEIGHTS) as [keyof typeof WEIGHTS, number][]) {
    const words = wordsOf(texts[part])
    for (const one of wanted) if (words.some(word => matches(one, word))) score += weight
  }
  return score
}

/** Describes the members at the top, where a model looks for them. */
function describeBody(schema: z.ZodType) {
  const { $schema: _, $ref, ...json } = z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' })
  if (!$ref || !json.$defs) return json
  const { [$ref.replace('#/$defs/', '')]: root, ...$defs } = json.$defs
  return { ...root, $defs }
}

const MAX_FOUND = 8

const searchApi = tool({
  name: 'search_api',
  title: 'Search the API',
  description:
    'For what no other tool does: finds API operations by words, or shows parameters and body schema of one.',
  routes: [],
  own: z.object({
    query: z.string().max(200).optional().meta({ description: 'Such as `webhook deliveries`.' }),
    operation: z.string().max(100).optional().meta({ description: 'The exact id of one.' }),
  }),
  run: async ({ query = '', operation: id }, _, { api, operations }) => {
    // A search takes time and needs nothing of a workspace: the key is checked and counted all the same.
    await api('GET /v2/me')
    const all = (await operations.loadAll()).filter(one => one.kind !== 'open')
    if (id !== undefined) {
      const operation = all.find(one => one.id === id)
      if (!operation) throw unknownOperation(id)
      const body = operation.kind === 'json' && operation.body && { body: describeBody(operation.body) }
      return { summary: operation.summary, data: { ...describeOperation(operation), ...body } }
    }
    const wanted = wordsOf(query)
    const found = all
      .map(operation => ({ operation, score: scoreOf(operation, wanted) }))
      .filter(({ score }) => score > 0)
      .sort((a, b) => b.score - a.score)
      .slice(0, MAX_FOUND)
    const found_operations = found.map(({ operation }) => describeOperation(operation))
    return { summary: `${found.length} operations of ${all.length}.`, data: { operations: found_operations } }
  },
})

const unknownOperation = (id: string) =>
  new ToolFailure('operation_unknown', `The API has no operation \`${id}\`. Find one with \`search_api\`.`)

const readApi = tool({
  name: 'read_api',
  title: 'Read from the API',
  description: 'Calls any GET operation of the API that answers with JSON, by its id. It never shows secrets.',
  routes: [],
  own: z.object({
    operation: z.string().max(100).meta({ description: 'From `search_api`.' }),
    parameters: z
      .record(z.string(), z.unknown())
      .optional()
      .meta({ type: 'object', description: 'Of its path and query.' }),
  }),
  foreignText: 'Text in this answer',
  run: async ({ operation: id, parameters = {} }, _, { api, operations }) => {
    const operation = (await operations.loadAll()).find(one => one.id === id)
    if (!operation) throw unknownOperation(id)
    if (!isReadable(operation))
      throw new ToolFailure('operation_refused', `\`${id}\` does not only read, or its answer is no JSON.`)
    const path: Record<string, string> = {}
    const query: Record<string, string> = {}
    const known = listParameters(operation)
    const faults = Object.keys(parameters)
      .filter(name => !known.some(parameter => parameter.name === name))
      .slice(0, MAX_UNKNOWN)
      .map(name => `\`${name}\` is not a parameter of \`${id}\``)
    for (const { name, required } of known) {
      const value = parameters[name]
      if (value === undefined || value === null) {
        if (required) faults.push(`\`${name}\` is required`)
      } else if (typeof value === 'object' && !isListOfScalars(value)) faults.push(`\`${name}\` must be no object`)
      else if (operation.params && name in operation.params.shape) path[name] = String(value)
      else query[name] = String(value)
    }
    if (faults.length > 0)
      throw new ToolFailure('invalid_arguments', `${faults.join('; ')}.`, { parameters: known.map(({ name }) => name) })
    const reply = await api(`GET ${operation.path}`, { path, query })
    return { summary: operation.summary, data: Array.isArray(reply) ? { items: reply } : reply }
  },
})

export const apiTools: Tool[] = [searchApi, readApi]
