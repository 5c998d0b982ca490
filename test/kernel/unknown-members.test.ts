// Members and query parameters that no schema has: refused on our routes, named on those of the contract, never silent.
import { describe, expect, it } from 'vitest'
import { loadOperations } from '../../src/app.ts'
import { getExampleRequest, newTenant, send } from '../support/app.ts'
import { makeImageBody } from '../support/deployment-bodies.ts'

const operations = await loadOperations()

type Faulted = { body: { errors: { type: string; loc: (string | number)[]; msg: string }[] } }
const faultsOf = ({ body }: Faulted) => body.errors.map(({ type, loc }) => `${type} ${loc.join('.')}`)
const suggestionsOf = ({ body }: Faulted) => body.errors.map(({ msg }) => /`([^`]+)`$/.exec(msg)?.[1])

describe('an unknown member', () => {
  it('on a route of our own is refused, with the nearest name', async () => {
    const { owner } = await newTenant()
    const reply = await owner.post('/workspaces', { display_nam: 'a', display_name: 'a', entirely_different: 1 })
    expect(reply.status).toBe(422)
    expect(faultsOf(reply)).toEqual(['unknown_member body.display_nam', 'unknown_member body.entirely_different'])
    expect(suggestionsOf(reply)).toEqual(['display_name', undefined])
  })

  it('on a route of the contract is ignored, and named in a header', async () => {
    const tenant = await newTenant()
    const body = makeImageBody({ env: {}, source_config: { resource_specs: { cpu: 1 } } })
    const { status, headers } = await tenant.post('/v2/deployments', body)
    expect(status).toBe(201)
    expect(headers.get('Slipway-Warnings')).toMatch(/^"[^"]*body\.source_config\.resource_specs[^"]*`resource_spec`/)
    expect(headers.get('Slipway-Warnings')).toMatch(/, "[^"]*body\.env[^"]*"$/)
  })

  it('is named in a plan', async () => {
    const tenant = await newTenant()
    const { body } = await tenant.post('/v2/deployments?dry_run=true', makeImageBody({ env: {} }))
    expect(body.warnings).toEqual([expect.stringContaining('body.env')])
    const { id } = (await tenant.post('/v2/deployments', makeImageBody())).body
    const plan = (await tenant.patch(`/v2/deployments/${id}?dry_run=true`, { env: {} })).body
    expect(plan.warnings).toEqual([expect.stringContaining('body.env')])
  })

  it('in resource_spec is refused on every route, at any depth', async () => {
    const tenant = await newTenant()
    const sidecars = [{ name: 'a', image: 'b', comand: ['c'] }]
    const body = makeImageBody({ source_config: { resource_spec: { min_scal: 1, sidecars } } })
    const reply = await tenant.post('/v2/deployments', body)
    expect(reply.status).toBe(422)
    expect(faultsOf(reply)).toEqual([
      'unknown_member body.source_config.resource_spec.min_scal',
      'unknown_member body.source_config.resource_spec.sidecars.0.comand',
    ])
    expect(suggestionsOf(reply)).toEqual(['min_scale', 'command'])
  })

  it('cannot break the header, whatever its name is', async () => {
    const tenant = await newTenant()
    const hostile = { 'a"\\\r\nSet-Cookie: b': 1, 'ü€': 1, [`long${'x'.repeat(5000)}`]: 1 }
    const many = Object.fromEntries(Array.from({ length: 500 }, (_, i) => [`unknown${i}`, i]))
    const { status, headers } = await tenant.post('/v2/deployments', makeImageBody({ ...hostile, ...many }))
    expect(status).toBe(201)
    expect(headers.get('Set-Cookie')).toBeNull()
    const warnings = headers.get('Slipway-Warnings')!
    expect(warnings).toMatch(/^("(\\["\\]|[ !#-[\]-~])*"(, |$))+$/)
    expect(warnings.length).toBeLessThan(3000)
  })

  it('is shortened in a plan, and in the header also if its characters are escaped there', async () => {
    const tenant = await newTenant()
    const many = Object.fromEntries(Array.from({ length: 50 }, (_, i) => [`${i}${'"'.repeat(5000)}`, i]))
    const { headers, text } = await tenant.post('/v2/deployments?dry_run=true', makeImageBody(many))
    expect(text.length).toBeLessThan(20_000)
    expect(headers.get('Slipway-Warnings')!.length).toBeLessThan(3000)
  })
})

describe('an unknown query parameter', () => {
  it('on a route of our own is refused, and on one of the contract named', async () => {
    const { owner, get } = await newTenant()
    const refused = await owner.get('/orgs/current/roles?limt=1')
    expect(refused.status).toBe(422)
    expect(faultsOf(refused)).toEqual(['unknown_member query.limt'])
    const listed = await get('/v2/deployments?limt=1')
    expect(listed.status).toBe(200)
    expect(listed.headers.get('Slipway-Warnings')).toContain('query.limt')
  })

  it('`dry_run` is refused on every route without a plan', async () => {
    const tenant = await newTenant()
    const withoutPlan = operations
      .filter(one => one.kind !== 'open')
      .filter(one => one.kind !== 'json' || one.variant?.on !== 'dry_run')
    expect(withoutPlan.length).toBeGreaterThan(200)
    for (const operation of withoutPlan) {
      const { method, path, kind } = operation
      const concrete = path.replace(/\{\w+\}/g, crypto.randomUUID())
      // A media type that the route does not take would be refused first.
      const headers = { ...(kind === 'raw' && getExampleRequest(operation).headers), 'X-Api-Key': tenant.owner.key }
      const { status, body } = await send(method.toUpperCase(), `${concrete}?dry_run=true`, { headers })
      expect([status, body.code], `${method} ${path}`).toEqual([422, 'invalid_request'])
      expect(faultsOf({ body }), path).toContain('unknown_member query.dry_run')
    }
  })

  it('that is another spelling of `dry_run` is refused on routes of the contract, which would write', async () => {
    const tenant = await newTenant()
    for (const name of ['dryRun', 'dry-run', 'DRY_RUN', 'dryrun', 'dry_run[]', ' dry_run']) {
      const reply = await tenant.post(`/v2/deployments?${encodeURIComponent(name)}=true`, makeImageBody())
      expect(faultsOf(reply)).toEqual([`unknown_member query.${name}`])
    }
    const reply = await tenant.post('/v2/deployments', makeImageBody({ dry_run: true }))
    expect(faultsOf(reply)).toEqual(['unknown_member body.dry_run'])
  })
})
