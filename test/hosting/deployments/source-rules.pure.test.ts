import { describe, expect, it } from 'vitest'
import { NewDeployment } from '../../../src/hosting/deployments/schema.ts'
import {
  findPushFaults,
  findRefusedMembers,
  findSourceFaults,
  type SourceFault,
} from '../../../src/hosting/deployments/source-rules.ts'
import { type Source, sources } from '../../../src/protocol/parts.schema.ts'

const ID = '8f14e45f-ceea-467f-9b5a-3b1c0a5c9d11'
const modeOf = (source: Source) => (source === 'external_container' ? 'self_hosted' : 'saas')

/** A row for each member, a column for each source. n: required, -: allowed, x: refused. */
const COLUMNS: Source[] = [
  'githost',
  'external_container',
  'internal_container',
  'internal_source',
  'internal_template',
]
const TABLE: [path: string, columns: string, value: unknown][] = [
  ['source_config.integration_id', 'n - - - -', ID],
  ['source_config.repo_url', 'n x x x x', 'https://git.example/a/b'],
  ['source_config.build_on_push', '- x - - -', false],
  ['source_config.watch_paths', '- x x x x', ['apps/**']],
  ['source_config.custom_url', '- - - - -', 'app.example.com'],
  ['source_config.resource_spec', '- n - - -', {}],
  ['source_config.listener_id', 'x - - - -', ID],
  ['source_config.listener_config', 'x - - - -', { k8s_namespace: 'apps' }],
  ['source_config.root_directory', '- x x - -', 'apps/web'],
  ['source_config.install_command', '- - - - -', 'npm ci'],
  ['source_config.build_command', '- x - - -', 'npm run build'],
  ['source_config.deployment_type', '- x - - -', 'prod'],
  ['source_config.template_id', '- - - - n', 'chat'],
  ['source_config.tracing', '- - - - -', false],
  ['source_revision_config.repo_ref', 'n x x x x', 'main'],
  ['source_revision_config.platform_config_path', '- - - - -', 'platform.json'],
  ['source_revision_config.image_uri', 'x n - x x', 'reg.example/app:1'],
  ['source_revision_config.source_tarball_path', 'x - - - x', 'uploads/1'],
  ['secret_references', 'x - x x x', [{ name: 'A', secret_name: 'a', secret_key: 'a' }]],
]
const getRule = (columns: string, source: Source) => columns.split(' ')[COLUMNS.indexOf(source)]

type Body = Record<string, Record<string, unknown>> & { source: Source }
const put = (body: Body, path: string, value: unknown) => {
  const [place, member] = path.split('.') as [string, string?]
  return { ...body, [place]: member ? { ...body[place], [member]: value } : value } as Body
}
const makeEmptyBody = (source: Source) =>
  ({ name: 'a', source, source_config: {}, source_revision_config: {}, secrets: [] }) as unknown as Body
/** A body with the members that the source requires, and no others. */
const makeMinimalBody = (source: Source) =>
  TABLE.filter(([, columns]) => getRule(columns, source) === 'n').reduce(
    (body, [path, , value]) => put(body, path, value),
    makeEmptyBody(source),
  )
const describeFaults = (faults: SourceFault[]) => faults.map(({ type, loc }) => `${type} ${loc.join('.')}`).sort()
const faultsOf = (body: Body, facts: Partial<Parameters<typeof findSourceFaults>[1]> = {}) =>
  describeFaults(findSourceFaults(NewDeployment.parse(body), { mode: modeOf(body.source), ...facts }))

it('the table has every member and every source', () => {
  const { source_config, source_revision_config } = NewDeployment.shape
  expect(TABLE.map(([path]) => path).sort()).toEqual(
    [
      ...Object.keys(source_config.shape).map(name => `source_config.${name}`),
      ...Object.keys(source_revision_config.shape).map(name => `source_revision_config.${name}`),
      'secret_references',
    ].sort(),
  )
  expect(COLUMNS).toEqual(sources)
})

it('takes the integration at the top level too, and refuses two that differ', () => {
  const body = { ...makeEmptyBody('githost'), integration_id: ID }
  expect(NewDeployment.parse(body).source_config).toEqual({ integration_id: ID, build_on_push: false })
  const same = { ...body, source_config: { integration_id: ID, build_on_push: true } }
  expect(NewDeployment.parse(same).source_config).toEqual(same.source_config)
  const other = NewDeployment.safeParse({ ...body, source_config: { integration_id: ID.replace('8', '9') } })
  expect(other.error?.issues.map(({ path }) => path)).toEqual([['integration_id']])
})

describe.each(sources)('a deployment of source %s', source => {
  it('is valid with only the required members', () => {
    expect(faultsOf(makeMinimalBody(source))).toEqual([])
  })

  it.each(TABLE)('follows the rule for %s', (path, columns, value) => {
    const body = makeMinimalBody(source)
    const expected = {
      n: { without: [`source_member_needed body.${path}`], given: [] },
      '-': { without: [], given: [] },
      x: { without: [], given: [`source_member_refused body.${path}`] },
    }[getRule(columns, source) as 'n' | '-' | 'x']
    expect(faultsOf(put(body, path, undefined))).toEqual(expected.without)
    expect(faultsOf(put(body, path, null))).toEqual(expected.without)
    expect(faultsOf(put(body, path, value))).toEqual(expected.given)
  })

  it('is refused in the other mode', () => {
    const mode = modeOf(source) === 'saas' ? 'self_hosted' : 'saas'
    expect(faultsOf(makeMinimalBody(source), { mode })).toEqual(['source_mode body.source'])
  })

  it('is refused with all its faults at once', () => {
    const body = TABLE.reduce(
      (body, [path, columns, value]) => (getRule(columns, source) === 'x' ? put(body, path, value) : body),
      makeEmptyBody(source),
    )
    const count = TABLE.filter(([, columns]) => getRule(columns, source) !== '-').length
    const mode = modeOf(source) === 'saas' ? 'self_hosted' : 'saas'
    expect(faultsOf(body, { mode })).toHaveLength(count + 1)
  })

  it('can have an empty list of secret references', () => {
    expect(faultsOf(put(makeMinimalBody(source), 'secret_references', []))).toEqual([])
  })
})

it('build_on_push is refused for a tag, and allowed for a branch', () => {
  const checkRef = (name: string, push: boolean) => {
    const body = put(makeMinimalBody('githost'), 'source_revision_config.repo_ref', name)
    return faultsOf(put(body, 'source_config.build_on_push', push))
  }
  const fault = ['build_on_push_of_tag body.source_config.build_on_push']
  expect(checkRef('refs/tags/v1', true)).toEqual(fault)
  expect(checkRef('refs/tags/v1', false)).toEqual([])
  for (const name of ['main', 'refs/heads/refs/tags/v1', 'refs/heads/main', 'tags/v1'])
    expect(checkRef(name, true)).toEqual([])
  const merged = { source_config: { build_on_push: true }, source_revision_config: { repo_ref: 'refs/tags/v1' } }
  expect(describeFaults(findPushFaults(merged))).toEqual(fault)
})

it('a patch is refused with the members that its source does not allow', () => {
  const patch = { source_config: { repo_url: 'https://a/b' }, source_revision_config: { image_uri: 'a' } }
  expect(describeFaults(findRefusedMembers('internal_source', patch))).toEqual([
    'source_member_refused body.source_config.repo_url',
    'source_member_refused body.source_revision_config.image_uri',
  ])
})
