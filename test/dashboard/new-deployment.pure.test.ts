// The pure rules of a new deployment: its request and commands, and the steps of its first revision.
import { describe, expect, it } from 'vitest'
import { formatBytes } from '../../src/dashboard/format/size.ts'
import { newEdit } from '../../src/dashboard/screens/deployments/variable-edits.ts'
import {
  addVariables,
  type Draft,
  faultsOfVariables,
  fieldOf,
  suggestName,
  toCommand,
  toRequest,
  withoutValues,
} from '../../src/dashboard/screens/new/draft.ts'
import { listSteps } from '../../src/dashboard/screens/new/steps.ts'

const draft = (values: Partial<Draft>): Draft => ({
  way: 'template',
  name: 'shop',
  template: '',
  integration: '',
  repository: '',
  branch: '',
  image: '',
  listener: '',
  namespace: '',
  configuration: '',
  root: '',
  deploysPushes: true,
  variables: [],
  installCommand: '',
  buildCommand: '',
  ...values,
})
const image = draft({
  way: 'image',
  image: ' ghcr.io/acme/shop:1 ',
  buildCommand: 'make',
  listener: 'l1',
  namespace: 'a',
})
const repository = draft({
  way: 'repository',
  repository: 'https://git.test/acme/shop',
  branch: "it's",
  integration: 'i1',
  listener: 'l1',
  configuration: 'slipway.json',
  root: 'apps/web',
  variables: addVariables([], 'TOKEN=hush', '.env').variables,
})

describe('the request of a new deployment', () => {
  it('names the listener and namespace of an image, and has no build commands', () => {
    expect(toRequest(image, false)).toEqual({
      name: 'shop',
      source: 'internal_container',
      secrets: [],
      source_config: { listener_id: 'l1', listener_config: { k8s_namespace: 'a' } },
      source_revision_config: { image_uri: 'ghcr.io/acme/shop:1' },
    })
    expect(toRequest(image, true)).toMatchObject({ source: 'external_container', source_config: { resource_spec: {} } })
  })

  it('names no listener for a repository, which that source refuses', () => {
    expect(toRequest(repository, false)).toMatchObject({
      source_config: { integration_id: 'i1', repo_url: 'https://git.test/acme/shop', root_directory: 'apps/web' },
      source_revision_config: { repo_ref: "it's", platform_config_path: 'slipway.json' },
      secrets: [{ name: 'TOKEN', value: 'hush' }],
    })
    expect(toRequest(repository, false).source_config).not.toHaveProperty('listener_id')
  })

  it('is copied without the values of variables, as requests and as commands', () => {
    expect(JSON.stringify(withoutValues(toRequest(repository, false)))).not.toContain('hush')
    expect(toCommand(repository)).toBe(
      "slipway deploy --repo https://git.test/acme/shop --branch 'it'\\''s' --root apps/web --name shop " +
        '--env TOKEN --create',
    )
    expect(toCommand(image)).toBe('slipway deploy --image ghcr.io/acme/shop:1 --name shop --create')
  })
})

it.each([
  [{ way: 'image', image: 'registry.test:5000/acme/My_Shop:1.2@sha256:abc' }, 'my-shop'],
  [{ way: 'repository', repository: 'https://git.test/acme/Blog.git' }, 'blog'],
  [{ way: 'template', template: '' }, ''],
  [{ way: 'folder' }, 'the-folder'],
  [{ way: 'folder', root: 'apps/web/' }, 'web'],
] as const)('the name suggested for %j is “%s”', (values, name) => {
  expect(suggestName(draft(values), 'The Folder')).toBe(name)
})

it('a refusal belongs to the field that it names', () => {
  expect(fieldOf('deployment_name_taken', 'The name is taken.')).toBe('name')
  expect(fieldOf('source_rule', 'source_config.listener_id is required: this workspace has listeners')).toBe(
    'source_config.listener_id',
  )
  expect(fieldOf('quota_exceeded', 'There are too many.')).toBeUndefined()
})

it('the lines of a .env file become rows, apart from what the platform sets, and a row has its own faults', () => {
  const rows = [newEdit('A', '1', true), newEdit('', '', true)]
  const { variables, notice } = addVariables(rows, 'PORT=80\nA=2\nB="two\nlines"\n1C=x', '.env')
  expect(variables.map(({ name, value }) => [name, value])).toEqual([
    ['A', '2'],
    ['B', 'two\nlines'],
    ['1C', 'x'],
  ])
  expect([notice.tone, notice.text]).toEqual(['ok', expect.stringContaining('PORT')])
  const faults = new Map([
    ['name', 'is taken'],
    ['secrets.0.value', 'is too long'],
    ['secrets.2.name', 'is no name'],
  ])
  const [a, , c] = variables
  expect([...faultsOfVariables(faults, [newEdit('', '', true), ...variables])]).toEqual([
    [a!.id, { value: 'is too long' }],
    [c!.id, { name: 'is no name' }],
  ])
  for (const text of ['no equals here', 'PORT=1', '', 'A=3\nno equals here'])
    expect(addVariables(rows, text, '.env')).toMatchObject({ variables: rows, notice: { tone: 'bad' } })
})

describe('the steps of a first revision', () => {
  type Revision = Parameters<typeof listSteps>[1]
  const stepsOf = (
    source: 'internal_source' | 'internal_template',
    active: string | null,
    ...states: Revision['status'][]
  ) =>
    listSteps(
      { source, active_revision_id: active, url: active && 'https://shop.test' },
      {
        id: 'r1',
        status: states.at(-1)!,
        states: states.map(status => ({ status, since: '2026-11-23T02:00:00Z', seconds: 1 })),
      },
    ).map(({ name, state }) => `${name} ${state}`)

  it('wait for the files of a folder, and then build them', () => {
    expect(stepsOf('internal_source', null, 'CREATING')).toEqual([
      'Upload running',
      'Waiting ahead',
      'Building ahead',
      'Deploying ahead',
      'Answering ahead',
    ])
    expect(stepsOf('internal_source', null, 'QUEUED', 'BUILDING', 'BUILD_FAILED')).toEqual([
      'Upload done',
      'Waiting done',
      'Building failed',
      'Deploying ahead',
      'Answering ahead',
    ])
  })

  it('build nothing for a template, and end once it serves', () => {
    expect(stepsOf('internal_template', null, 'AWAITING_DEPLOY', 'DEPLOYING')).toEqual([
      'Waiting done',
      'Deploying running',
      'Answering ahead',
    ])
    expect(stepsOf('internal_template', 'r1', 'AWAITING_DEPLOY', 'DEPLOYING', 'DEPLOYED').at(-1)).toBe('Answering done')
  })
})

it.each([
  [0, '0 B'],
  [1023, '1023 B'],
  [1536, '1.5 KB'],
  [200 * 1024 ** 2, '200.0 MB'],
  [5000 * 1024 ** 3, '5000.0 GB'],
])('%d bytes are %s', (bytes, text) => {
  expect(formatBytes(bytes)).toBe(text)
})
