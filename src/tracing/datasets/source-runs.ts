// Takes members of new examples from the runs that they are made of.
import type { Ctx } from '../../kernel/http/context.ts'
import { type Fault, fail } from '../../kernel/http/errors.ts'
import { invalidRequest } from '../../kernel/http/input.ts'
import { fillPayloads, openObject, RUN_PAYLOAD_BYTES } from '../runs/object-links.ts'
import { objectsOf } from '../runs/run-wire.ts'
import type { StoredRun } from '../store/queries.ts'
import type { StoredObject } from '../store/store.ts'
import type { ExampleInput, NewAttachment } from './example-input.ts'

type Source = {
  source_run_id?: string | null | undefined
  use_source_run_io?: boolean | null | undefined
  use_source_run_attachments?: string[] | null | undefined
}

const takesContents = ({ source_run_id, use_source_run_io, use_source_run_attachments: names }: Source): boolean =>
  Boolean(source_run_id && (use_source_run_io || names?.length))

/** Members that a client sends win over those of the run. */
export async function takeFromRuns<Example extends ExampleInput<Source>>(
  ctx: Ctx,
  examples: Example[],
): Promise<Example[]> {
  if (!examples.some(takesContents)) return examples
  const runs = await readRuns(ctx, [...new Set(examples.filter(takesContents).map(one => one.source_run_id!))])
  const faults: Fault[] = []
  const budget = { bytes: RUN_PAYLOAD_BYTES }
  const taken: Example[] = []
  for (const example of examples) {
    const found = takesContents(example) ? runs.get(example.source_run_id!) : undefined
    taken.push(found ? await takeFromRun(ctx, example, found, faults, budget) : example)
  }
  if (faults.length > 0) throw invalidRequest(faults)
  return taken
}

/** Needs the permission to read runs besides that of the request. */
async function readRuns(ctx: Ctx, ids: string[]): Promise<Map<string, StoredRun>> {
  const reader: Ctx = { ...ctx, permission: 'runs:read' }
  const query = { ids, order: 'asc' as const, limit: ids.length, columns: ['inputs', 'outputs', 'objects'] as const }
  const { runs } = await ctx.traces.query(reader, query)
  const found = new Map(runs.map(one => [one.id, one]))
  const missing = ids.filter(id => !found.has(id))
  if (missing.length > 0) throw fail('run_not_found', { about: missing.join(', ') })
  await fillPayloads(ctx, runs, RUN_PAYLOAD_BYTES)
  return found
}

async function takeFromRun<Example extends ExampleInput<Source>>(
  ctx: Ctx,
  example: Example,
  source: StoredRun,
  faults: Fault[],
  budget: { bytes: number },
): Promise<Example> {
  const attachments: NewAttachment[] = [...example.attachments]
  for (const [i, name] of (example.use_source_run_attachments ?? []).entries()) {
    if (attachments.some(one => one.name === name)) continue
    const object = objectsOf(source).attachments?.[name]
    budget.bytes -= object?.bytes ?? 0
    const found = object && budget.bytes >= 0 && (await readAttachment(ctx, object, name))
    if (found) {
      attachments.push(found)
      continue
    }
    const loc = [...example.loc.inputs.slice(0, -1), 'use_source_run_attachments', i]
    const isMissing = budget.bytes >= 0
    const msg = isMissing ? 'is not an attachment of the run' : 'exceeds, with those before it, what a request takes'
    faults.push({ type: isMissing ? 'missing' : 'too_big', loc, msg })
  }
  const own: { inputs?: string; outputs?: string } = example.use_source_run_io ? contentsOf(source) : {}
  // A member that is stored apart and is too long is an empty text.
  for (const name of ['inputs', 'outputs'] as const)
    if (own[name] === '' && example[name] === undefined)
      faults.push({ type: 'too_big', loc: example.loc[name], msg: 'of the run are too long' })
  return { ...own, ...example, attachments }
}

const contentsOf = ({ inputs, outputs }: StoredRun): { inputs?: string; outputs?: string } => ({
  inputs: inputs ?? '{}',
  ...(outputs != null && { outputs }),
})

async function readAttachment({ platform }: Ctx, object: StoredObject, name: string): Promise<NewAttachment | null> {
  const body = await openObject(platform, object)
  if (!body) return null
  const bytes = new Uint8Array(await new Response(body).arrayBuffer())
  return { name, mime_type: object.type ?? 'application/octet-stream', bytes }
}
