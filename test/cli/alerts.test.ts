// `slipway alerts` and `slipway incidents`.
import { sql } from 'drizzle-orm'
import { beforeAll, expect, it } from 'vitest'
import { runAsSystem } from '../../src/kernel/db/db.ts'
import { getApp, newTenant } from '../support/app.ts'
import { serveApp } from '../support/cli.ts'
import { makeHereRunner } from '../support/cli-here.ts'

let url: string
beforeAll(async () => {
  const served = await serveApp((_, pass) => pass())
  url = served.url
})

it('creates, lists, turns off, mutes and deletes rules, and resolves incidents', async () => {
  const tenant = await newTenant()
  const run = makeHereRunner(url, tenant)
  const ok = async (...args: string[]) => {
    const result = await run(...args)
    expect([result.code, result.err]).toEqual([0, expect.any(String)])
    return result
  }
  await ok('alerts', 'create', 'Slow', '--metric', 'latency_p95', '--above', '500', '--for', '2m')
  await ok('alerts', 'create', 'Payments', '--log', 'payment failed', '--count', '3', '--window', '10m')
  await ok('alerts', 'create', 'Builds', '--event', 'revision.*_failed', '--severity', 'warning')
  expect((await ok('alerts', 'list')).out).toContain('"metric":"latency_p95"')
  await ok('alerts', 'set', 'Slow', 'off')
  await ok('alerts', 'set', 'built-in', 'off')
  await ok('alerts', 'mute', 'Moving', '--for', '2h', '--rule', 'Payments')
  const { resources: rules } = (await tenant.get('/v2/alert-rules?limit=100')).body
  const stateOf = (name: string) => rules.find((rule: { name: string }) => rule.name === name)
  expect(stateOf('Slow')).toMatchObject({ enabled: false, for_seconds: 120 })
  expect(stateOf('Payments').condition).toMatchObject({ count: 3, window_seconds: 600 })
  expect(stateOf('Not healthy')).toMatchObject({ enabled: true, is_active: false })
  const [mute] = (await tenant.get('/v2/alert-mutes')).body.resources
  expect(mute).toMatchObject({ reason: 'Moving', rule_ids: [stateOf('Payments').id], is_active: true })
  await ok('alerts', 'unmute', mute.id)
  await ok('alerts', 'delete', 'Builds', '--yes')
  expect((await run('alerts', 'create', 'None', '--metric', 'cpu')).code).not.toBe(0)

  const [[[id]]] = (await runAsSystem(
    getApp().database,
    sql`
      insert into incidents (
        organization_id, tenant_id, rule_name, subject_type, subject_id, subject_name, severity, title, cause, evidence,
        channel_ids
      )
      select w.organization_id, w.id, 'Rule', 'workspace', w.id, 'shop', 'error', 'shop: Rule', 'It exits.',
        '{"facts": [], "lines": ["the last line"]}', '{}'
      from workspaces w
      where w.id = ${tenant.tenant_id}::uuid
      returning id`,
  )) as [[[string]]]
  expect((await ok('incidents', 'list')).out).toContain('shop: Rule')
  expect((await ok('incidents', 'show', id)).out).toContain('the last line')
  await ok('incidents', 'ack', id, 'Looking.')
  await ok('incidents', 'resolve', id)
  expect((await tenant.get(`/v2/incidents/${id}`)).body.state).toBe('resolved')
})
