// Tracing projects: sessions on the wire.
import { describe, expect, it } from 'vitest'
import { newTenant, type Reply, type Tenant, unusedId, withClockAhead } from '../support/app.ts'
import { newDeployment } from '../support/deployments.ts'
import { readTiers, storeRuns } from '../support/runs.ts'

const outcome = ({ status, body }: Reply) => [status, body?.code]
const newProject = async (tenant: Tenant, body: object = {}) => {
  const reply = await tenant.post('/sessions', { name: `project-${unusedId()}`, ...body })
  expect(reply.status, reply.text).toBe(200)
  return reply.body
}
const newDataset = async (tenant: Tenant): Promise<string> =>
  (await tenant.post('/datasets', { name: `dataset-${unusedId()}` })).body.id
const namesOf = ({ body }: Reply): string[] => body.map(({ name }: { name: string }) => name)

describe('a project', () => {
  it('is created and read', async () => {
    const tenant = await newTenant()
    const key = (await tenant.post('/v2/tag-keys', { key: 'team' })).body.id
    const tag = (await tenant.post(`/v2/tag-keys/${key}/values`, { value: 'shop' })).body.id
    const sent = {
      id: unusedId(),
      name: 'shop',
      description: 'Sells.',
      extra: { metadata: { a: [1] }, b: null },
      start_time: '2026-01-02T03:04:05.678Z',
      end_time: '2026-01-03T00:00:00.000Z',
      default_dataset_id: await newDataset(tenant),
      reference_dataset_id: await newDataset(tenant),
      tag_value_ids: [tag],
      num_examples: 3,
      num_repetitions: 2,
      evaluator_keys: ['correct'],
      trace_tier: 'longlived',
      longlived_ttl_days: 100,
    }
    const created = await newProject(tenant, sent)
    expect(created).toMatchObject({ ...sent, tenant_id: tenant.tenant_id, deployment_id: null, run_count: null })
    expect((await tenant.get(`/sessions/${sent.id}`)).body).toEqual(created)
  })

  it('is named after its id if nothing else is said, and starts now', async () => {
    const tenant = await newTenant()
    const { id, name, start_time, trace_tier } = (await tenant.post('/sessions', {})).body
    expect([name, trace_tier]).toEqual([id, 'shortlived'])
    expect(Math.abs(Date.parse(start_time) - Date.now())).toBeLessThan(60_000)
  })

  it('has a name and an id of its own', async () => {
    const tenant = await newTenant()
    const { id, name } = await newProject(tenant)
    expect(outcome(await tenant.post('/sessions', { name }))).toEqual([409, 'project_name_taken'])
    expect(outcome(await tenant.post('/sessions', { id }))).toEqual([409, 'project_id_taken'])
    expect(outcome(await (await newTenant()).post('/sessions', { id }))).toEqual([409, 'project_id_taken'])
    const other = await newProject(tenant)
    expect(outcome(await tenant.patch(`/sessions/${other.id}`, { name }))).toEqual([409, 'project_name_taken'])
  })

  it('is changed by an upsert only in the members that are sent', async () => {
    const tenant = await newTenant()
    const first = await newProject(tenant, { description: 'old', extra: { metadata: { a: 1 } } })
    const upsert = async (body: object) =>
      (await tenant.post('/sessions?upsert=true', { name: first.name, ...body })).body
    expect(await upsert({ description: null, extra: {} })).toEqual(first)
    const second = await upsert({ description: 'new', extra: { metadata: { b: 2 } } })
    expect(second).toEqual({ ...first, description: 'new', extra: { metadata: { b: 2 } } })
    const { id, name } = (await tenant.post('/sessions?upsert=true', { name: 'fresh' })).body
    expect([name, id]).not.toContain(first.id)
  })

  it('is changed by an upsert only by those who may change it', async () => {
    const tenant = await newTenant()
    const { name } = await newProject(tenant)
    const body = { description: 'x', permissions: ['projects:create'] }
    const { key } = (await tenant.post('/workspaces/current/api-keys', body)).body
    expect((await tenant.as(key).post('/sessions?upsert=true', { name })).status).toBe(200)
    const change = await tenant.as(key).post('/sessions?upsert=true', { name, description: 'mine' })
    expect(outcome(change)).toEqual([403, 'permission_missing'])
  })

  it('is patched, and null keeps a member', async () => {
    const tenant = await newTenant()
    const before = await newProject(tenant, { description: 'old', longlived_ttl_days: 30 })
    const patch = {
      name: 'renamed',
      end_time: '2026-01-03T00:00:00.000Z',
      extra: { metadata: { a: 1 } },
      description: null,
    }
    const after = (await tenant.patch(`/sessions/${before.id}`, patch)).body
    expect(after).toEqual({ ...before, ...patch, description: 'old' })
    const kept = { name: null, end_time: null, extra: null, trace_tier: null }
    expect((await tenant.patch(`/sessions/${before.id}`, kept)).body).toEqual(after)
    expect(
      (await tenant.patch(`/sessions/${before.id}`, { longlived_ttl_days: null })).body.longlived_ttl_days,
    ).toBeNull()
  })

  it.each(['default_dataset_id', 'reference_dataset_id'])('refuses a foreign %s', async member => {
    const [tenant, other] = [await newTenant(), await newTenant()]
    await newDataset(tenant)
    const body = { [member]: await newDataset(other) }
    expect(outcome(await tenant.post('/sessions', body))).toEqual([404, 'dataset_not_found'])
  })

  it('is created, read and changed by the second version, in which null removes a value', async () => {
    const tenant = await newTenant()
    const reference_dataset_id = await newDataset(tenant)
    const extra = { metadata: { a: 1 }, kept: [1.5], gone: true }
    const sent = { name: 'shop', description: 'Sells.', trace_tier: 'LONG_LIVED', longlived_ttl_days: 100, extra }
    const experiment = { type: 'EXPERIMENT', ...sent, reference_dataset_id }
    const created = await tenant.post('/v2/sessions', experiment)
    expect(created).toMatchObject({ status: 200, body: { ...experiment, total_cost: null } })
    const path = `/v2/sessions/${created.body.id}`
    const read = await tenant.get(path)
    expect(read.body).toEqual(created.body)
    expect((await tenant.get(`${path}?include_stats=true`)).body.run_count).toBe(0)
    expect((await tenant.get(`/sessions/${created.body.id}`)).body.trace_tier).toBe('longlived')
    const patch = { description: null, extra: { metadata: { b: 2 }, gone: null }, trace_tier: 'SHORT_LIVED' }
    const changed = await tenant.patch(path, patch, { 'If-Match': read.headers.get('ETag')! })
    expect(changed).toMatchObject({ status: 200, body: { name: 'shop', description: null, longlived_ttl_days: 100 } })
    expect(changed.body.extra).toEqual({ metadata: { b: 2 }, kept: [1.5] })
    expect((await tenant.patch(path, { extra: null, longlived_ttl_days: null })).body).toMatchObject({
      extra: null,
      longlived_ttl_days: null,
      trace_tier: 'SHORT_LIVED',
    })
    const upserted = await tenant.post('/v2/sessions?upsert=true', { type: 'PROJECT', name: 'shop', description: 'B' })
    expect(upserted.body).toMatchObject({ id: created.body.id, description: 'B', type: 'EXPERIMENT' })

    const refused = [
      { name: 'a' },
      { type: 'AGENT' },
      { type: 'EXPERIMENT' },
      { type: 'PROJECT', reference_dataset_id },
      { type: 'PROJECT', trace_tier: 'longlived' },
    ]
    for (const body of refused) expect((await tenant.post('/v2/sessions', body)).status, JSON.stringify(body)).toBe(422)
    expect((await tenant.patch(path, { name: null })).status).toBe(422)
    expect(outcome(await tenant.patch(`/v2/sessions/${unusedId()}`, {}))).toEqual([404, 'project_not_found'])
  })

  it('is found by the address of an experiment, and by no other kind', async () => {
    const tenant = await newTenant()
    const [{ id }, plain] = [
      await newProject(tenant, { reference_dataset_id: await newDataset(tenant) }),
      await newProject(tenant),
    ]
    const resolve = (query: string) => tenant.get(`/api/v1/sessions/resolutions?${query}`)
    expect((await resolve(`kind=experiment&id=${id}`)).body).toEqual({ session_id: id })
    for (const query of [`kind=EXPERIMENT&id=${plain.id}`, 'kind=AGENT&id=a&environment=STAGING', 'kind=EVALUATOR'])
      expect(outcome(await resolve(query)), query).toEqual([404, 'project_not_found'])
    for (const query of ['', 'kind=none', 'kind=EXPERIMENT', 'kind=EXPERIMENT&id=a'])
      expect((await resolve(query)).status, query).toBe(422)
  })

  it('refuses a foreign tag', async () => {
    const [tenant, other] = [await newTenant(), await newTenant()]
    const key = (await other.post('/v2/tag-keys', { key: 'team' })).body.id
    const tag = (await other.post(`/v2/tag-keys/${key}/values`, { value: 'shop' })).body.id
    expect(outcome(await tenant.post('/sessions', { tag_value_ids: [tag] }))).toEqual([404, 'tag_value_not_found'])
  })

  it('is deleted, and its name is free again', async () => {
    const tenant = await newTenant()
    const { id, name } = await newProject(tenant)
    expect((await tenant.delete(`/sessions/${id}`)).status).toBe(204)
    expect(outcome(await tenant.get(`/sessions/${id}`))).toEqual([404, 'project_not_found'])
    expect((await newProject(tenant, { name })).id).not.toBe(id)
  })

  it('is deleted with others, or none is', async () => {
    const tenant = await newTenant()
    const ids = [(await newProject(tenant)).id, (await newProject(tenant)).id]
    const unknown = await tenant.delete(`/sessions?session_ids=${ids[0]}&session_ids=${unusedId()}`)
    expect(outcome(unknown)).toEqual([404, 'project_not_found'])
    expect((await tenant.get('/sessions')).body).toHaveLength(2)
    expect((await tenant.delete(`/sessions?session_ids=${ids[0]}&session_ids=${ids[1]}`)).status).toBe(204)
    expect((await tenant.get('/sessions')).body).toEqual([])
  })

  it('keeps the name of its deployment, and lives as long as the deployment', async () => {
    const tenant = await newTenant()
    const deployment = await newDeployment(tenant)
    const [{ id, name }] = (await tenant.get('/sessions')).body
    expect(name).toBe(deployment.name)
    expect((await tenant.patch(`/sessions/${id}`, { name, description: 'Traces.' })).body.description).toBe('Traces.')
    expect(outcome(await tenant.patch(`/sessions/${id}`, { name: 'other' }))).toEqual([409, 'project_of_deployment'])
    expect(outcome(await tenant.delete(`/sessions/${id}`))).toEqual([409, 'project_of_deployment'])
    expect(outcome(await tenant.delete(`/sessions?session_ids=${id}`))).toEqual([409, 'project_of_deployment'])
    await tenant.delete(`/v2/deployments/${deployment.id}`)
    expect(outcome(await tenant.get(`/sessions/${id}`))).toEqual([404, 'project_not_found'])
  })
})

describe('the list of projects', () => {
  it('is an array, the latest start first', async () => {
    const tenant = await newTenant()
    for (const [name, start_time] of [
      ['b', '2026-01-02T00:00:00Z'],
      ['a', '2026-01-03T00:00:00Z'],
      ['c', '2026-01-01T00:00:00Z'],
    ])
      await newProject(tenant, { name, start_time })
    for (const [query, names] of [
      ['', ['a', 'b', 'c']],
      ['limit=1&offset=1', ['b']],
      ['sort_by_desc=false', ['c', 'b', 'a']],
      ['sort_by=name', ['c', 'b', 'a']],
      ['sort_by=name&sort_by_desc=false', ['a', 'b', 'c']],
    ] as const)
      expect(namesOf(await tenant.get(`/sessions?${query}`)), query).toEqual(names)
  })

  it('finds projects by their members', async () => {
    const tenant = await newTenant()
    const dataset = await newDataset(tenant)
    const plain = await newProject(tenant, { name: 'plain', extra: { metadata: { team: 'x', n: 1 } } })
    const version = '2026-01-01T00:00:00+00:00'
    await newProject(tenant, {
      name: 'experiment_1',
      reference_dataset_id: dataset,
      extra: { metadata: { dataset_version: version } },
    })
    await newProject(tenant, { name: 'Experiment-2', reference_dataset_id: dataset, trace_tier: 'longlived' })
    const encode = encodeURIComponent
    for (const [query, names] of [
      [`id=${plain.id}&id=${unusedId()}`, ['plain']],
      ['name=plain', ['plain']],
      ['name=plai', []],
      ['name_contains=EXPERIMENT', ['Experiment-2', 'experiment_1']],
      ['name_contains=_', ['experiment_1']],
      [`reference_dataset=${dataset}`, ['Experiment-2', 'experiment_1']],
      ['reference_free=true', ['plain']],
      ['reference_free=false', ['Experiment-2', 'experiment_1']],
      [`dataset_version=${encode(version)}`, ['experiment_1']],
      [`metadata=${encode('{"team":"x"}')}`, ['plain']],
      [`metadata=${encode('{"team":"y"}')}`, []],
      [`filter=${encode('eq(name, "plain")')}`, ['plain']],
      [`filter=${encode('or(like(name, "exp%"), has(metadata, \'{"n":1}\'))')}`, ['experiment_1', 'plain']],
      [`filter=${encode('not(exists(metadata, "team"))')}`, ['Experiment-2', 'experiment_1']],
      [`filter=${encode('eq(trace_tier, "longlived")')}`, ['Experiment-2']],
      [`filter=${encode(`in(id, ["${plain.id}"])`)}`, ['plain']],
      [`filter=${encode('search("EXPERIMENT")')}`, ['Experiment-2', 'experiment_1']],
      [`filter=${encode('and(neq(reference_dataset_id, null), lt(start_time, "2020-01-01"))')}`, []],
      [`filter=${encode('gt(run_count, 0)')}`, []],
    ] as const)
      expect(namesOf(await tenant.get(`/sessions?${query}`)).sort(), query).toEqual(names)
  })

  it('finds projects by all of their tags', async () => {
    const tenant = await newTenant()
    const key = (await tenant.post('/v2/tag-keys', { key: 'team' })).body.id
    const value = async (text: string) => (await tenant.post(`/v2/tag-keys/${key}/values`, { value: text })).body.id
    const [a, b] = [await value('a'), await value('b')]
    await newProject(tenant, { name: 'both', tag_value_ids: [a, b] })
    await newProject(tenant, { name: 'one', tag_value_ids: [a] })
    expect(namesOf(await tenant.get(`/sessions?tag_value_id=${a}&tag_value_id=${b}`))).toEqual(['both'])
    expect(namesOf(await tenant.get(`/sessions?tag_value_id=${a}&sort_by=name`))).toEqual(['one', 'both'])
  })

  it.each([
    'sort_by=colour',
    'sort_by=feedback',
    'metadata=1',
    'metadata=%7B%22a%22%3A%22%5Cu0000%22%7D',
    'limit=101',
    'id=1',
    'reference_free=maybe',
    'stats_select=everything',
  ])('refuses the query %s', async query => {
    expect(outcome(await (await newTenant()).get(`/sessions?${query}`))).toEqual([422, 'invalid_request'])
  })

  it('names the place where a filter is wrong', async () => {
    const reply = await (await newTenant()).get('/sessions?filter=eq(nom,1)')
    expect(outcome(reply)).toEqual([400, 'filter_invalid'])
    expect(reply.body.errors).toMatchObject([{ loc: ['query', 'filter'] }])
  })
})

describe('a tier', () => {
  const LONG = { trace_tier: 'longlived' }
  const SHORT = { trace_tier: 'shortlived' }
  const days = (longlived_ttl_days: number | null) => ({ longlived_ttl_days })
  const INCREASE = 'projects:increase-trace-tier'
  const DECREASE = 'projects:decrease-trace-tier'

  it.each<[what: string, before: object, patch: object, needed: string[]]>([
    ['to long-lived', {}, LONG, [INCREASE]],
    ['to short-lived', LONG, SHORT, [DECREASE]],
    ['to the same tier', LONG, LONG, []],
    ['to more days', days(30), days(31), [INCREASE]],
    ['to fewer days', days(30), days(29), [DECREASE]],
    ['to fewer days than usual', {}, days(100), [DECREASE]],
    ['to the usual days', days(30), days(null), [INCREASE]],
    ['to short-lived with more days', { ...LONG, ...days(30) }, { ...SHORT, ...days(60) }, [INCREASE, DECREASE]],
    ['of nothing', LONG, { description: 'x' }, []],
  ])('is changed %s with the permission for it', async (_, before, patch, needed) => {
    const tenant = await newTenant()
    const { id } = await newProject(tenant, before)
    const attempt = async (permissions: string[]) => {
      const { key } = (await tenant.post('/workspaces/current/api-keys', { description: 'x', permissions })).body
      return outcome(await tenant.as(key).patch(`/sessions/${id}`, patch))
    }
    for (const missing of needed) {
      const others = [INCREASE, DECREASE].filter(one => one !== missing)
      expect(await attempt(['projects:update', ...others]), missing).toEqual([403, 'permission_missing'])
    }
    expect(await attempt([INCREASE, DECREASE])).toEqual([403, 'permission_missing'])
    expect(await attempt(['projects:update', ...needed])).toEqual([200, undefined])
  })

  it.each<[what: string, body: object, needed: boolean]>([
    ['longer', LONG, true],
    ['as usual', SHORT, false],
    ['for fewer days', days(14), false],
  ])('for a new project that keeps traces %s', async (_, body, needed) => {
    const tenant = await newTenant()
    const attempt = async (permissions: string[]) => {
      const { key } = (await tenant.post('/workspaces/current/api-keys', { description: 'x', permissions })).body
      return outcome(await tenant.as(key).post('/sessions', body))
    }
    expect(await attempt(['projects:create'])).toEqual(needed ? [403, 'permission_missing'] : [200, undefined])
    expect(await attempt(['projects:create', INCREASE])).toEqual([200, undefined])
  })

  it('holds for traces that begin from then on', async () => {
    const tenant = await newTenant()
    const { id, name } = await newProject(tenant)
    const tierOf = async (start_time: string) => {
      const [run] = await storeRuns(tenant, [{ session_name: name, start_time }])
      return (await readTiers(tenant))[run!]
    }
    const now = Date.now()
    const at = (hours: number) => new Date(now + hours * 3_600_000).toISOString()
    await withClockAhead(3_600_000, () => tenant.patch(`/sessions/${id}`, LONG))
    await withClockAhead(3 * 3_600_000, () => tenant.patch(`/sessions/${id}`, SHORT))
    expect([await tierOf(at(0.5)), await tierOf(at(2)), await tierOf(at(4))]).toEqual([
      'shortlived',
      'longlived',
      'shortlived',
    ])
  })

  it('cannot be changed where an access policy denies it, although the role permits it', async () => {
    const tenant = await newTenant()
    const key = (await tenant.post('/v2/tag-keys', { key: 'Environment' })).body.id
    const tag = (await tenant.post(`/v2/tag-keys/${key}/values`, { value: 'production' })).body.id
    const [tagged, plain] = [await newProject(tenant, { tag_value_ids: [tag] }), await newProject(tenant)]
    const conditions = [
      {
        attribute_name: 'resource_tag_key',
        attribute_key: 'Environment',
        operator: 'equals',
        attribute_value: 'production',
      },
    ]
    const group = { permission: INCREASE, resource_type: 'project', conditions }
    const policy = { name: 'No more', effect: 'deny', condition_groups: [group] }
    const { id } = (await tenant.owner.post('/v1/platform/orgs/current/access-policies', policy)).body
    const role = {
      display_name: unusedId(),
      permissions: ['projects:read', 'projects:update', 'projects:create', INCREASE],
    }
    const role_id = (await tenant.owner.post('/orgs/current/roles', role)).body.id
    const attachment = `/v1/platform/orgs/current/access-policies/roles/${role_id}/access-policies`
    expect((await tenant.owner.post(attachment, { access_policy_ids: [id] })).status).toBe(204)
    const limited = tenant.as(
      (
        await tenant.owner.post(
          '/workspaces/current/api-keys',
          { description: 'x', role_id },
          { 'X-Tenant-Id': tenant.tenant_id },
        )
      ).body.key,
    )
    expect(outcome(await limited.patch(`/sessions/${tagged.id}`, LONG))).toEqual([403, 'denied_by_policy'])
    expect(outcome(await limited.patch(`/sessions/${tagged.id}`, { description: 'x' }))).toEqual([200, undefined])
    expect(outcome(await limited.patch(`/sessions/${plain.id}`, LONG))).toEqual([200, undefined])
  })
})
