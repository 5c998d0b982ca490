// Credentials in replies: their schema says which members are one, and `/mcp` masks these.
import { expect, it } from 'vitest'
import * as z from 'zod'
import { loadOperations } from '../../../src/app.ts'
import { maskCredentials } from '../../../src/connect/mcp/masked-credentials.ts'
import type { ReplyingOperation } from '../../../src/kernel/http/routes.ts'
import { CREDENTIAL } from '../../../src/protocol/wire.ts'
import { newTenant } from '../../support/app.ts'
import { connectMcp } from '../../support/mcp.ts'
import { storeRuns } from '../../support/runs.ts'

it('a marked member is masked wherever a schema puts it, and no other', () => {
  const Link = z.object({ url: z.string().meta(CREDENTIAL), name: z.string() }).meta({ id: 'MaskedLink' })
  const Reply = z.object({
    url: z.string(),
    link: Link.nullable(),
    links: z.array(Link),
    byName: z.record(z.string(), Link),
    either: z.union([z.object({ token: z.string().optional().meta(CREDENTIAL) }), z.string()]),
    none: z.string().nullable().meta(CREDENTIAL),
  })
  const link = { url: 'https://a.test/1', name: 'a' }
  const masked = { ...link, url: '*****' }
  const body = { url: 'b', link, links: [link], byName: { a: link }, either: { token: 't' }, none: null }
  expect(maskCredentials(Reply, body)).toEqual({
    ...body,
    link: masked,
    links: [masked],
    byName: { a: masked },
    either: { token: '*****' },
  })
  expect(maskCredentials(Reply, { ...body, link: null, either: 't' })).toMatchObject({ link: null, either: 't' })
})

const NAMED_LIKE_ONE = /(^|_)(token|secret|password)$|^(presigned|signed|upload|redirect|share)_url$/

it('every member of a reply that is named like a credential is marked as one', async () => {
  const unmarked = new Set<string>()
  type Json = { [name: string]: Json } & { type?: string; 'x-credential'?: boolean; properties?: Json; anyOf?: Json[] }
  const walk = (schema: Json, at: string): void => {
    if (typeof schema !== 'object' || schema === null) return
    for (const [name, member] of Object.entries(schema.properties ?? {}) as [string, Json][]) {
      const isText = [member, ...((member.anyOf ?? []) as Json[])].some(({ type }) => type === 'string')
      if (isText && NAMED_LIKE_ONE.test(name) && !member['x-credential']) unmarked.add(`${at}: ${name}`)
    }
    for (const part of Object.values(schema)) walk(part as Json, at)
  }
  const operations: ReplyingOperation[] = await loadOperations()
  for (const { id, reply, path } of operations)
    if (reply && !path.startsWith('/v1/sync')) walk(z.toJSONSchema(reply, { unrepresentable: 'any' }) as Json, id)
  expect([...unmarked]).toEqual([])
})

it('read_api shows feedback links without their token', async () => {
  const tenant = await newTenant()
  const [run_id] = await storeRuns(tenant, [{}])
  const made = (await tenant.post('/feedback/tokens', { run_id, feedback_key: 'helpful' })).body
  const client = connectMcp(tenant.key)
  const { data } = await client.call('read_api', { operation: 'listFeedbackLinks', parameters: { run_id } })
  expect(data.items).toMatchObject([{ url: '*****', id: '*****', feedback_key: 'helpful' }])
  expect(JSON.stringify(data)).not.toContain(made.id)
})

it('read_api shows a shared run without its link', async () => {
  const tenant = await newTenant()
  const [run_id] = await storeRuns(tenant, [{}])
  const { session_id: project_id } = (await tenant.get(`/runs/${run_id}`)).body
  const { share_token } = (await tenant.put(`/runs/${run_id}/share`)).body
  const path = `/v2/runs/${run_id}?project_id=${project_id}&selects=SHARE_URL`
  expect((await tenant.get(path)).body.share_url).toContain(share_token)
  const parameters = { run_id, project_id, selects: 'SHARE_URL' }
  const { data } = await connectMcp(tenant.key).call('read_api', { operation: 'readRunV2', parameters })
  expect(data).toMatchObject({ share_url: '*****' })
})
