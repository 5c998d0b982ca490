// Objects stored apart from their run: long members, which answers include up to a limit, and attachments behind signed
// URLs.

import { createSigner } from '../../kernel/crypto/crypto.ts'
import type { Ctx } from '../../kernel/http/context.ts'
import { createKeylessCaller } from '../../kernel/http/context.ts'
import { fail } from '../../kernel/http/errors.ts'
import type { Services } from '../../kernel/http/routes.ts'
import type { RunQuery, StoredRun } from '../store/queries.ts'
import type { LongMember, Payload, StoredObject } from '../store/store.ts'
import { attachmentName, objectsOf } from './run-wire.ts'
import type { ObjectLink } from './runs.schema.ts'

const MEGABYTE = 1024 * 1024
export const PAGE_PAYLOAD_BYTES = 8 * MEGABYTE
export const RUN_PAYLOAD_BYTES = 48 * MEGABYTE
const PARALLEL_READS = 6

type Stored = { run: StoredRun; name: LongMember; object: StoredObject }

/**
 * Fills in the members that are stored apart, errors before payloads, up to a number of bytes. Other payloads stay
 * empty, and other errors keep their beginning.
 */
export async function fillPayloads(ctx: Ctx, runs: StoredRun[], maxBytes: number): Promise<void> {
  const apart = runs.flatMap(run =>
    Object.entries(run.objects ? objectsOf(run) : {})
      .filter(([name]) => (name === 'error' ? run.error != null : run[name as Payload] === ''))
      .map(([name, object]): Stored => ({ run, name: name as LongMember, object: object as StoredObject })),
  )
  apart.sort((a, b) => Number(b.name === 'error') - Number(a.name === 'error'))
  let rest = maxBytes
  const wanted = apart.filter(({ object }) => {
    rest -= object.bytes
    return rest >= 0
  })
  await ctx.answer?.reserve(wanted.reduce((sum, { object }) => sum + object.bytes, 0))
  const readNext = async (): Promise<void> => {
    for (let next = wanted.pop(); next; next = wanted.pop()) {
      const body = await openObject(ctx.platform, next.object)
      if (body) next.run[next.name] = await new Response(body).text()
    }
  }
  await Promise.all(Array.from({ length: PARALLEL_READS }, readNext))
}

export async function openObject({ storage }: Ctx['platform'], object: StoredObject): Promise<BodyInit | null> {
  if ('base64' in object) return Buffer.from(object.base64, 'base64')
  try {
    return (await storage?.get(object.path)) ?? null
  } catch (cause) {
    throw fail('storage_unavailable', { headers: { 'Retry-After': '1' }, cause })
  }
}

const LINK_TTL_MS = 60 * 60_000
const linkSigner = ({ sealingKeys }: Ctx['config']) => createSigner(sealingKeys, 'run objects')
type Signed = Pick<ObjectLink, 'run_id' | 'workspace_id' | 'organization_id' | 'expires'>
const signedText = ({ organization_id, workspace_id, run_id, expires }: Signed) =>
  ['GET', organization_id, workspace_id, run_id, expires].join('\n')

/** The URLs of texts that are stored apart from these runs. */
export async function signObjects({ config, platform, origin, requestInfo }: Ctx, runs: StoredRun[]) {
  const expires = platform.clock.now() + LINK_TTL_MS
  const place = { organization_id: requestInfo.organization!, workspace_id: requestInfo.tenant!, expires }
  const queries = new Map<string, URLSearchParams>()
  for (const { id, objects } of runs) {
    if (!objects) continue
    const signature = await linkSigner(config).sign(signedText({ ...place, run_id: id }))
    queries.set(id, new URLSearchParams({ ...place, expires: String(expires), signature }))
  }
  return ({ id }: StoredRun, name: string): string =>
    `${origin}/runs/${id}/objects/${encodeURIComponent(name)}?${queries.get(id)}`
}

/** The signature replaces a key. */
export async function openRunObject(services: Services, link: ObjectLink, requestId: string) {
  const { config, platform } = services
  if (!(await linkSigner(config).verify(link.signature, signedText(link)))) throw fail('download_link_invalid')
  if (link.expires <= platform.clock.now()) throw fail('download_link_expired')
  const actor = { kind: 'visitor', id: null, organization: link.organization_id, tenant: link.workspace_id } as const
  const ctx: Ctx = { ...createKeylessCaller(services, actor, requestId, ''), permission: 'runs:read' }
  const query: RunQuery = { ids: [link.run_id], order: 'desc', limit: 1, columns: ['objects'] }
  const [run] = (await ctx.traces.query(ctx, query)).runs
  if (!run) throw fail('run_not_found')
  const { attachments = {}, ...payloads } = objectsOf(run)
  const names = Object.entries(attachments).map(([name, object]) => [attachmentName(name), object] as const)
  const object = new Map<string, StoredObject>([...Object.entries(payloads), ...names]).get(link.name)
  const body = object && (await openObject(platform, object))
  if (!body) throw fail('run_object_not_found')
  return { body, type: object.type ?? 'application/json' }
}
