import { describe, expect, it } from 'vitest'
import { NewDeployment } from '../../src/deployments/schema.ts'
import {
  findPushFaults,
  findRefusedMembers,
  findSourceFaults,
  SOURCE_RULES,
  type SourceFault,
} from '../../src/deployments/source-rules.ts'
import { type Source, sources } from '../../src/protocol/parts.schema.ts'

const ID = '8f14e45f-ceea-467f-9b5a-3b1c0a5c9d11'
const modeOf = (source: Source) => (source === 'external_container' ? 'self_hosted' : 'saas')

/** One row a member, one column a source: n needed, - allowed, x refused. */
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
  ['source_config.build_on_push', 'n x - - -', false],
  ['source_config.custom_url', '- - - - -', 'app.example.com'],
  ['source_config.resource_spec', '- n - - -', {}],
  ['source_config.listener_id', 'x - - - -', ID],
  ['source_config.listener_config', 'x - - - -', { k8s_namespace: 'apps' }],
  ['source_config.install_command', '- - - - -', 'npm ci'],
  ['source_config.build_command', '- x - - -', 'npm run build'],
  ['source_config.deployment_type', '- x - - -', 'prod'],
  ['source_config.template_id', '- - - - n', 'chat'],
  ['source_revision_config.repo_ref', 'n x x x x', 'main'],
  ['source_revision_config.platform_config_path', 'n - - - -', 'platform.json'],
  ['source_revision_config.image_uri', 'x n - x x', 'reg.example/app:1'],
  ['source_revision_config.source_tarball_path', 'x - - - x', 'uploads/1'],
  ['secret_references', 'x - x x x', [{ name: 'A', secret_name: 'a', secret_key: 'a' }]],
]
const rule = (columns: string, source: Source) => columns.split(' ')[COLUMNS.indexOf(source)]

type Loose = Record<string, Record<string, unknown>> & { source: Source }
const put = (body: Loose, path: string, value: unknown) => {
  const [place, member] = path.split('.') as [string, string?]
  return { ...body, [place]: member ? { ...body[place], [member]: value } : value } as Loose
}
const empty = (source: Source) =>
  ({ name: 'a', source, source_config: {}, source_revision_config: {}, secrets: [] }) as unknown as Loose
/** With what the source needs and nothing else. */
const minimal = (source: Source) =>
  TABLE.filter(([, columns]) => rule(columns, source) === 'n').reduce(
    (body, [path, , value]) => put(body, path, value),
    empty(source),
  )
const describeFaults = (faults: SourceFault[]) => faults.map(({ type, loc }) => `${type} ${loc.join('.')}`).sort()
const faultsOf = (body: Loose, facts: Partial<Parameters<typeof findSourceFaults>[1]> = {}) =>
  describeFaults(findSourceFaults(NewDeployment.parse(body), { mode: modeOf(body.source), ...facts }))

it('the table names every member', () => {
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

describe.each(sources)('%s', source => {
  it('is content with what it needs', () => {
    expect(faultsOf(minimal(source))).toEqual([])
  })

  it.each(TABLE)('%s', (path, columns, value) => {
    const whole = minimal(source)
    const expected = {
      n: { without: [`source_member_needed body.${path}`], given: [] },
      '-': { without: [], given: [] },
      x: { without: [], given: [`source_member_refused body.${path}`] },
    }[rule(columns, source) as 'n' | '-' | 'x']
    expect(faultsOf(put(whole, path, undefined))).toEqual(expected.without)
    expect(faultsOf(put(whole, path, null))).toEqual(expected.without)
    expect(faultsOf(put(whole, path, value))).toEqual(expected.given)
  })

  it('exists in one mode', () => {
    const other = modeOf(source) === 'saas' ? 'self_hosted' : 'saas'
    expect(faultsOf(minimal(source), { mode: other })).toEqual(['source_mode body.source'])
  })

  it('tells every fault at once', () => {
    const all = TABLE.reduce(
      (body, [path, columns, value]) => (rule(columns, source) === 'x' ? put(body, path, value) : body),
      empty(source),
    )
    const count = TABLE.filter(([, columns]) => rule(columns, source) !== '-').length
    const other = modeOf(source) === 'saas' ? 'self_hosted' : 'saas'
    expect(faultsOf(all, { mode: other })).toHaveLength(count + 1)
  })

  it('an empty list of references asks for nothing', () => {
    expect(faultsOf(put(minimal(source), 'secret_references', []))).toEqual([])
  })
})

it('only sources of code are built', () => {
  expect(sources.filter(source => SOURCE_RULES[source].builds)).toEqual(['githost', 'internal_source'])
})

it('a tag is not built on push, a branch is', () => {
  const ref = (name: string, push: boolean) =>
    faultsOf(put(put(minimal('githost'), 'source_revision_config.repo_ref', name), 'source_config.build_on_push', push))
  const onTag = ['build_on_push_of_tag body.source_config.build_on_push']
  expect(ref('refs/tags/v1', true)).toEqual(onTag)
  expect(ref('refs/tags/v1', false)).toEqual([])
  for (const name of ['main', 'refs/heads/refs/tags/v1', 'refs/heads/main', 'tags/v1'])
    expect(ref(name, true)).toEqual([])
  const merged = { source_config: { build_on_push: true }, source_revision_config: { repo_ref: 'refs/tags/v1' } }
  expect(describeFaults(findPushFaults(merged))).toEqual(onTag)
})

it('a patch is held to what its source refuses', () => {
  const supplied = { source_config: { repo_url: 'https://a/b' }, source_revision_config: { image_uri: 'a' } }
  expect(describeFaults(findRefusedMembers('internal_source', supplied))).toEqual([
    'source_member_refused body.source_config.repo_url',
    'source_member_refused body.source_revision_config.image_uri',
  ])
})
