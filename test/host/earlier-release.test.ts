// The previous release serves on the schema of this one, and beside it: an upgrade replaces it after the migrations.
import * as fs from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { bootstrap } from '../../src/access/bootstrap.ts'
import { createHost } from '../../src/host/host.ts'
import { findFreePort } from '../../src/postgres/free-port.ts'
import { extractRelease, findObstacle, previousRelease, type Server, startServer } from '../support/earlier-release.ts'
import { createMigratedDatabase } from '../support/migrated-postgres.ts'

const obstacle = findObstacle(previousRelease)

describe.skipIf(obstacle)(
  `the previous release, ${previousRelease?.app}${obstacle ? ` (skipped: ${obstacle})` : ''}`,
  () => {
    const folder = fs.mkdtempSync(join(tmpdir(), 'slipway-earlier-'))
    const settings = { PUBLIC_URL: 'http://slipway.test', SEALING_KEYS: `first:${'A'.repeat(43)}`, UPLOADS_DIR: folder }
    let earlier: Server
    let present: ReturnType<typeof createHost>
    let key: string

    beforeAll(async () => {
      const url = await createMigratedDatabase()
      extractRelease(previousRelease!, join(folder, 'code'))
      present = createHost({ ...settings, DATABASE_URL: url }, { log: () => {} })
      const started = startServer(join(folder, 'code'), await findFreePort(), { ...settings, DATABASE_URL: url })
      const created = await bootstrap(present.app.database, { organization: 'Acme', emails: ['ada@example.com'] })
      key = created.api_key
      earlier = await started
    })
    afterAll(async () => {
      await earlier?.stop()
      await present.close()
      fs.rmSync(folder, { recursive: true, force: true })
    })

    // biome-ignore lint/suspicious/noExplicitAny: answers of two releases
    type Reply = { status: number; body: any }
    type Send = (method: string, path: string, body?: object) => Promise<Reply>
    const sendBy =
      (request: (path: string, init: RequestInit) => Response | Promise<Response>): Send =>
      async (method, path, body) => {
        const headers = { 'X-Api-Key': key, 'Content-Type': 'application/json' }
        const response = await request(path, { method, headers, ...(body && { body: JSON.stringify(body) }) })
        const text = await response.text()
        return { status: response.status, body: text && JSON.parse(text) }
      }
    const toEarlier = sendBy((path, init) => fetch(earlier.url + path, init))
    const toPresent = sendBy((path, init) => present.app.request(path, init))

    const draft = (name: string) => ({
      ...{ name, source: 'internal_template', source_config: { template_id: 'web-service' } },
      ...{ source_revision_config: {}, secrets: [{ name: 'TOKEN', value: 'a secret' }] },
    })

    it.each([
      ['itself', () => [toEarlier, toEarlier]],
      ['this release', () => [toEarlier, toPresent]],
      ['the previous one from this release', () => [toPresent, toEarlier]],
    ])('creates what is read and changed by %s', async (name, senders) => {
      const [writer, other] = senders() as [Send, Send]
      const created = await writer('POST', '/v2/deployments', draft(`app-${name.length}`))
      expect([created.status, created.body]).toEqual([201, expect.anything()])
      const path = `/v2/deployments/${created.body.id}`
      expect(await other('GET', path)).toMatchObject({ status: 200, body: { name: created.body.name } })
      const change = { source_config: { resource_spec: { cpu: 2 } } }
      expect(await other('PATCH', path, change)).toMatchObject({ status: 200, body: { id: created.body.id } })
      expect(await writer('GET', `${path}/revisions`)).toMatchObject({
        body: { resources: [{ number: 2 }, { number: 1 }] },
      })
      const list = await writer('GET', '/v2/deployments')
      expect(list.body.resources.map((one: { id: string }) => one.id)).toContain(created.body.id)
      expect(await other('POST', `${path}/revisions`, {})).toMatchObject({ status: 201 })
      expect(await writer('DELETE', path)).toMatchObject({ status: 204 })
    })

    it('reads and writes what is not a deployment', async () => {
      const paths = ['/readyz', '/orgs/current/info', '/orgs/current/roles', '/orgs/current/members', '/workspaces']
      for (const path of paths) expect([path, (await toEarlier('GET', path)).status]).toEqual([path, 200])
      for (const [path, body] of [
        ['/v2/listeners', { compute_type: 'local', compute_id: 'rack-1' }],
        ['/v2/tag-keys', { key: 'team' }],
      ] as const)
        expect([path, (await toEarlier('POST', path, body)).status]).toEqual([path, 201])
    })
  },
)
