// A tool: a name and a description for a model, the operations that it calls, and its input, derived from theirs.
import * as z from 'zod'
import type { Operation } from '../../kernel/http/routes.ts'
import { describeIssue } from '../../protocol/fault-messages.ts'
import { type Answer, ToolFailure } from './answers.ts'
import type { ApiCall } from './api-calls.ts'

/** The operations of the API, which the app knows. */
export type Operations = {
  loadAll: () => Promise<Operation[]>
  /** Takes a method and path, such as `GET /v2/deployments/{deployment_id}`. Imports the slices of that path alone. */
  load: (route: string) => Promise<Operation | undefined>
}

type Query = Record<string, string>
/** Tools get this context and their input. */
export type ToolContext = {
  api: ApiCall
  operations: Operations
  /** The workspace of the call, once a request has named or needed it. */
  workspace: () => string | undefined
  /**
   * Asks the person at the client, if the client can, and returns when the person has accepted. `subject` is accepted:
   * an answer to a question about another subject does not count.
   */
  confirm: (subject: unknown, question: () => Promise<string>) => Promise<void>
}

export type Tool = {
  name: string
  title: string
  description: string
  /** The operations that it is for, as `GET /v2/deployments`. The first one has the parameters of `query`. */
  routes: string[]
  /** Operations that it calls first, to resolve the names in its arguments. */
  lookUps: string[]
  /** Query parameters of the first operation that are arguments of the tool. */
  query: string[]
  /** Arguments of its own. */
  own: z.ZodObject
  /** Calls its operations with `dry_run` alone. */
  onlyPlans: boolean
  /** Undoes or replaces something that people use. */
  isDestructive: boolean
  /** A repeat with the same arguments has no further effect. */
  isIdempotent: boolean
  /** The parts of its answers that other people have written. */
  foreignText: string | undefined
  run: (input: never, query: Query, context: ToolContext) => Promise<Answer>
}

type ToolDeclaration<Own extends z.ZodObject> = Pick<Tool, 'name' | 'title' | 'description' | 'routes'> &
  Partial<Pick<Tool, 'lookUps' | 'query' | 'onlyPlans' | 'isDestructive' | 'isIdempotent' | 'foreignText'>> & {
    own?: Own
    run: (input: z.output<Own>, query: Query, context: ToolContext) => Promise<Answer>
  }

export const tool = <Own extends z.ZodObject = z.ZodObject<Record<never, never>>>(
  declared: ToolDeclaration<Own>,
): Tool => ({
  lookUps: [],
  query: [],
  own: z.object({}),
  onlyPlans: false,
  isDestructive: false,
  isIdempotent: false,
  foreignText: undefined,
  ...declared,
})

const Workspace = z.string().max(255).optional().meta({ description: 'Name or id, if the key has several.' })

type Json = string | number | boolean | null | Json[] | { [name: string]: Json }
type JsonSchema = { [name: string]: Json }

/** Keywords that a model can use. The API validates every value anyway. */
const KEPT_KEYWORDS = ['type', 'enum', 'description', 'items', 'minimum', 'maximum']

function toJsonSchema(schema: z.ZodType): JsonSchema {
  const json = z.toJSONSchema(schema, { io: 'output', unrepresentable: 'any' }) as JsonSchema
  return Object.fromEntries(
    Object.entries(json).filter(
      ([keyword, value]) => KEPT_KEYWORDS.includes(keyword) && Math.abs(Number(value)) !== Number.MAX_SAFE_INTEGER,
    ),
  )
}

/** The name and the bounds of `limit` say all. */
function describeParameter(name: string, schema: z.ZodType): JsonSchema {
  const json = toJsonSchema(schema)
  if (name === 'limit') delete json.description
  return json
}

type Description = Awaited<ReturnType<typeof describe>>
const descriptions = new Map<Tool, Promise<Description>>()

/** Made once: the schemas of all tools take some milliseconds. */
export function describeTool(one: Tool, operations: Operations): Promise<Description> {
  const described = descriptions.get(one) ?? describe(one, operations)
  descriptions.set(one, described)
  return described.catch(error => {
    descriptions.delete(one)
    throw error
  })
}

async function describe(one: Tool, { load }: Operations) {
  const operations = await Promise.all(one.routes.map(load))
  const shape = operations[0]?.query?.shape ?? {}
  const own = Object.entries(one.own.shape) as [string, z.ZodType][]
  const properties = {
    ...Object.fromEntries(own.map(([name, schema]) => [name, toJsonSchema(schema)])),
    ...Object.fromEntries(one.query.map(name => [name, describeParameter(name, shape[name] as z.ZodType)])),
    workspace: toJsonSchema(Workspace),
  }
  const required = own.filter(([, schema]) => !schema.safeParse(undefined).success).map(([name]) => name)
  return {
    name: one.name,
    title: one.title,
    description: one.description,
    inputSchema: { type: 'object' as const, properties, ...(required.length > 0 && { required }) },
    annotations: annotate(one, operations as Operation[]),
  }
}

const readsOnly = ({ method, isReadOnly }: Operation): boolean => method === 'get' || isReadOnly === true

/** Hints for clients. The other hints of a tool that reads have no meaning. */
export function annotate({ onlyPlans, isDestructive, isIdempotent }: Tool, operations: Operation[]) {
  const openWorldHint = operations.some(one => one.kind === 'json' && one.callsExternalServers === true)
  if (onlyPlans || operations.every(readsOnly)) return { readOnlyHint: true, openWorldHint }
  return { readOnlyHint: false, destructiveHint: isDestructive, idempotentHint: isIdempotent, openWorldHint }
}

/** The permission that the operation needs, as the tool calls it. */
export const permissionOf = ({ onlyPlans }: Tool, operation: Operation): string | null => {
  if (operation.kind === 'open') return null
  const { verb } = (onlyPlans && operation.kind === 'json' && operation.variant) || operation
  return verb.permission
}

export type Arguments = { workspace: string | undefined; own: never; query: Query }

/** Each unknown argument costs a sentence, so a request of many would have a far larger answer. */
export const MAX_UNKNOWN = 20

/** Reports all faults at once, and the names of all arguments for an unknown one. */
export function readArguments(one: Tool, args: Record<string, unknown>): Arguments {
  const names = [...Object.keys(one.own.shape), ...one.query, 'workspace']
  const faults: { at: string; problem: string }[] = []
  const present = Object.fromEntries(Object.entries(args).filter(([, value]) => value !== null && value !== undefined))
  const unknown = Object.keys(present).filter(name => !names.includes(name))
  for (const name of unknown.slice(0, MAX_UNKNOWN))
    faults.push({ at: name, problem: `is not an argument of ${one.name}. It has: ${names.join(', ')}` })
  const collect = (schema: z.ZodType, value: unknown): unknown => {
    const result = schema.safeParse(value, { error: describeIssue })
    if (result.success) return result.data
    for (const { path, message } of result.error.issues) faults.push({ at: path.join('.'), problem: message })
    return undefined
  }
  const own = collect(one.own, Object.fromEntries(Object.entries(present).filter(([name]) => name in one.own.shape)))
  const { workspace } = (collect(z.object({ workspace: Workspace }), { workspace: present.workspace }) ?? {}) as {
    workspace?: string
  }
  const query: Query = {}
  for (const name of one.query) {
    const value = present[name]
    if (value === undefined) continue
    if (typeof value === 'object' && !isListOfScalars(value))
      faults.push({ at: name, problem: 'must be a text, a number, a boolean or a list of them' })
    else query[name] = String(value)
  }
  if (faults.length > 0)
    throw new ToolFailure('invalid_arguments', faults.map(({ at, problem }) => `${at}: ${problem}`).join('; '), {
      errors: faults,
    })
  return { workspace, own: own as never, query }
}

/** Joined by commas, as the filters of the API take several values. */
export const isListOfScalars = (value: object | null): boolean =>
  Array.isArray(value) && value.every(item => typeof item !== 'object')
