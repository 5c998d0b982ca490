import { describe, expect, it } from 'vitest'
import * as z from 'zod'
import * as schemas from '../../../src/hosting/deployments/schema.ts'
import { MASK, sources } from '../../../src/protocol/parts.schema.ts'
import * as fc from '../../support/seeded-fast-check.ts'

const { Deployment, DeploymentPatch, NewDeployment, Revision } = schemas

const ID = '8f14e45f-ceea-467f-9b5a-3b1c0a5c9d11'
const faults = (schema: z.ZodType, value: unknown) => [
  ...new Set(schema.safeParse(value).error?.issues.map(issue => issue.path.join('.'))),
]
const body = { name: 'a', source: 'githost', source_config: {}, source_revision_config: {}, secrets: [] }
const repeatA = (count: number) => 'a'.repeat(count)
const put = (path: string, value: unknown) => {
  const [place, member] = path.split('.') as [string, string?]
  return { [place]: member ? { [member]: value } : value }
}

describe('the schema', () => {
  it.each([
    ['NewDeployment', NewDeployment],
    ['DeploymentPatch', DeploymentPatch],
  ] as const)('%s has a valid example', (_, schema) => {
    expect(schema.parse(schema.meta()!.example)).toEqual(schema.meta()!.example)
  })

  it.each(Object.entries(schemas).filter(([, one]) => one instanceof z.ZodType))(
    '%s can be converted to JSON Schema',
    (_, schema) => {
      for (const io of ['input', 'output'] as const) {
        const document = z.toJSONSchema(schema as z.ZodType, { io, unrepresentable: 'any' })
        for (const [name, definition] of Object.entries(document.$defs ?? {}))
          expect(definition.type ?? definition.oneOf, name).toBeDefined()
      }
    },
  )
})

describe('a new deployment', () => {
  it('requires its members, and ignores unknown ones', () => {
    const parsed = NewDeployment.parse({ ...body, tags: [], source_config: { x: 1 } })
    expect(parsed).toEqual({ ...body, source_config: { build_on_push: false } })
    expect(faults(NewDeployment, {}).sort()).toEqual(Object.keys(body).sort())
    for (const member of Object.keys(body)) expect(faults(NewDeployment, { ...body, [member]: null })).toEqual([member])
    expect(faults(NewDeployment, { ...body, secret_references: null })).toEqual([])
  })

  it.each([
    ['can have', ['a', '0', 'a-b', repeatA(63)], []],
    ['cannot have', ['', 'A', '-a', 'a-', 'a_b', 'a.b', 'a b', repeatA(64), 'a\n', 'é', 1], ['name']],
  ])('%s the names %j', (_, names, expected) => {
    for (const name of names) expect(faults(NewDeployment, { ...body, name }), `${name}`).toEqual(expected)
  })

  it.each(sources)('can have the source %s', source => {
    expect(faults(NewDeployment, { ...body, source })).toEqual([])
  })
})

const REFUSED_CHARACTERS = ["'", '"', '\\', '`', '\r', '\n', '\0', '\t', '|', ';', '$', '<', '>']
const COMMANDS = {
  good: ['npm ci', 'npm ci && npm run build', 'a&&b', 'pip install -r requirements.txt', 'make -j4 (x) {y} *', 'é'],
  bad: [
    '',
    '&',
    'a & b',
    'a &',
    'a &&& b',
    'a && b & c',
    ...REFUSED_CHARACTERS.map(odd => `a${odd}b`),
    ...REFUSED_CHARACTERS,
    1,
    ['a'],
    repeatA(1025),
  ],
}
const PATHS = {
  good: ['platform.json', './a.json', 'a/b/c.json', '..a/b..', 'a b'],
  bad: ['', '/a', '..', '../a', 'a/..', 'a/../b', 'a\\b', 'a\nb', repeatA(1025), 1],
}
const MEMBERS: Record<string, { good: unknown[]; bad: unknown[] }> = {
  'source_config.integration_id': { good: [ID], bad: ['', 'x', `${ID}0`, 1] },
  'source_config.repo_url': {
    good: [
      'https://github.com/acme/shop',
      'http://git.local:3000/a/b.git',
      'https://a/b%20c',
      'https://a/~b/@c',
      'git@github.com:a/b.git',
      'ssh://git@a/b',
    ],
    bad: [
      '',
      'github.com/a/b',
      'ftp://a/b',
      'https://',
      'https://a',
      'https://a/',
      'https://me@a/b',
      'https://me:pw@a/b',
      'https://a/b?c',
      'https://a/b#c',
      'https://a/b c',
      'file:///a',
      1,
      `https://a/${repeatA(2048)}`,
    ],
  },
  'source_config.build_on_push': { good: [true, false], bad: ['true', 1] },
  'source_config.custom_url': {
    good: [
      'app.example.com',
      'app',
      'https://app.example.com',
      'https://a.b:8443/x',
      'a.b:80',
      'xn--bcher-kva.example',
    ],
    bad: [
      '',
      'http://a.b',
      'https://',
      'a b',
      'https://me@a.b',
      '-a.b',
      'a..b',
      '//a.b',
      'javascript:x',
      'a/b',
      1,
      '/pay',
      'https:///pay',
      '*.a.b',
      'https://*.a.b/x',
      'a.b.',
      'bücher.example',
      'a.b:99999',
      '192.0.2.7',
      '127.1',
      '0x7f.1',
      '[::1]',
      'https://a.b/x?y',
      'https://a.b/x#y',
      'https://a.b/x\\y',
      'a_b.c',
      `${repeatA(64)}.b`,
      `${'a.'.repeat(127)}b`,
      `https://a.b/${repeatA(2048)}`,
    ],
  },
  'source_config.resource_spec': { good: [{}, { cpu: 1 }], bad: [1, [], 'x'] },
  'source_config.listener_id': { good: [ID], bad: ['x'] },
  'source_config.listener_config': { good: [{}, { k8s_namespace: 'apps' }], bad: ['apps', []] },
  'source_config.root_directory': {
    good: ['.', 'apps/web', './a/', 'a..b/c'],
    bad: ['', '/a', '..', 'a/../b', 'a/..', 'a\\b', repeatA(1025), 1],
  },
  'source_config.install_command': COMMANDS,
  'source_config.build_command': COMMANDS,
  'source_config.deployment_type': { good: ['dev_free', 'dev', 'prod'], bad: ['', 'PROD', 'free', 1] },
  'source_config.watch_paths': { good: [['apps/**', '!docs/*'], []], bad: ['apps/**', 1] },
  'source_config.tracing': { good: [true, false], bad: ['true', 1] },
  'source_config.template_id': { good: ['chat', ID], bad: ['', 1, repeatA(129)] },
  'source_revision_config.repo_ref': {
    good: ['main', 'refs/heads/a/b', 'refs/tags/v1.0', 'feature/x#1', repeatA(40), 'é'],
    bad: [
      '',
      '-x',
      '--upload-pack=x',
      '/a',
      'a/',
      '.a',
      'a.',
      'a..b',
      'a//b',
      'a b',
      'a@{1}',
      'a~1',
      'a^',
      'a:b',
      'a?',
      '*',
      '[',
      '\\',
      'a\n',
      repeatA(256),
      1,
    ],
  },
  'source_revision_config.platform_config_path': PATHS,
  'source_revision_config.image_uri': {
    good: ['app', 'reg.example:5000/a/b:v1', `ghcr.io/a/b@sha256:${'0'.repeat(64)}`, `a:1@sha256:${'f'.repeat(64)}`],
    bad: ['', 'A', 'https://a/b', 'a:', 'a@sha256:0', 'a b', 'a//b', ':1', 1, `${repeatA(520)}`],
  },
  'source_revision_config.source_tarball_path': { good: ['uploads/1.tgz'], bad: ['', 1, repeatA(1025)] },
}

describe.each(Object.entries(MEMBERS))('the member %s', (path, { good, bad }) => {
  it.each([
    ['a new deployment', NewDeployment, body],
    ['a patch', DeploymentPatch, {}],
  ] as const)('in %s accepts valid values and refuses invalid ones', (_, schema, rest) => {
    for (const value of good) expect(schema.parse({ ...rest, ...put(path, value) })).toMatchObject(put(path, value))
    for (const value of bad) expect(faults(schema, { ...rest, ...put(path, value) }), `${value}`).toEqual([path])
  })

  it('is treated as missing if it is null', () => {
    const [place] = path.split('.') as [string]
    expect(DeploymentPatch.parse(put(path, null))).toEqual({ [place]: {} })
  })
})

it('k8s_namespace is a DNS label', () => {
  const checkNamespace = (k8s_namespace: unknown) =>
    faults(DeploymentPatch, { source_config: { listener_config: { k8s_namespace } } })
  for (const name of ['apps', 'a-1', repeatA(63), null]) expect(checkNamespace(name)).toEqual([])
  for (const name of ['', 'A', 'a.b', repeatA(64), 1])
    expect(checkNamespace(name)).toEqual(['source_config.listener_config.k8s_namespace'])
})

it('the table has every member of the two configurations', () => {
  const { source_config, source_revision_config } = NewDeployment.shape
  const names = Object.entries({ source_config, source_revision_config }).flatMap(([place, schema]) =>
    Object.keys(schema.shape).map(member => `${place}.${member}`),
  )
  expect(names.sort()).toEqual(Object.keys(MEMBERS).sort())
})

it('a command is accepted exactly if its only shell characters are pairs of &', () => {
  const pieces = fc.constantFrom('npm', ' ', '&', '&&', ...REFUSED_CHARACTERS)
  fc.assert(
    fc.property(fc.array(pieces, { minLength: 1 }), parts => {
      const build_command = parts.join('')
      const isSafe = !/['"\\`\r\n\0\t|;$<>&]/.test(build_command.replaceAll('&&', ''))
      expect(faults(DeploymentPatch, { source_config: { build_command } }).length === 0).toBe(isSafe)
    }),
  )
})

it('members of 1 MB are validated within the time limit', () => {
  const before = Date.now()
  for (const path of Object.keys(MEMBERS)) {
    for (const piece of ['a', 'a/', '&&', '&', '-', '.', 'a.', 'a-', '_', ':', 'https://a/', '@{', '../']) {
      const value = piece.repeat(1_000_000 / piece.length)
      for (const text of [value, `${value}\n`, `a${value}!`]) DeploymentPatch.safeParse(put(path, text))
    }
  }
  expect(Date.now() - before).toBeLessThan(20_000)
})

describe.each(['secrets', 'secret_references'] as const)('the items of %s', list => {
  const makeItem = (name: unknown) =>
    list === 'secrets' ? { name, value: '' } : { name, secret_name: 'a.b', secret_key: 'A_b.c-1' }
  const checkNames = (names: unknown[]) => faults(DeploymentPatch, { [list]: names.map(makeItem) })

  it('have names that are valid for environment variables', () => {
    expect(checkNames(['A', '_', 'a1', 'PORT_', 'MY_PORT', 'port', 'SLIPWAY', repeatA(253)])).toEqual([])
    for (const name of ['', '1A', 'A-B', 'A.B', 'A B', 'A=B', 'É', 'A\n', repeatA(254), null, 1])
      expect(checkNames([name]), `${name}`).toEqual([`${list}.0.name`])
  })

  it('cannot have names that are reserved for the platform', () => {
    for (const name of ['PORT', 'PATH', 'DATABASE_URI', 'REDIS_URI', 'SLIPWAY_', 'SLIPWAY_X']) {
      const { error } = DeploymentPatch.safeParse({ [list]: [makeItem('A'), makeItem(name)] })
      expect(error!.issues.map(issue => issue.path)).toEqual([[list, 1, 'name']])
      expect(error!.issues[0]!.message).toContain(name)
    }
  })

  it('have unique names, which is checked even if there are other faults', () => {
    expect(checkNames(['A', 'B', 'A', 'A'])).toEqual([`${list}.2.name`, `${list}.3.name`])
    expect(faults(DeploymentPatch, { [list]: [makeItem('A'), makeItem('A'), 1], source_config: 1 }).sort()).toEqual(
      [`${list}.1.name`, `${list}.2`, 'source_config'].sort(),
    )
  })

  it('can be null as a list in a patch', () => {
    expect(checkNames([])).toEqual([])
    expect(faults(DeploymentPatch, { [list]: null })).toEqual([])
    expect(faults(DeploymentPatch, { [list]: [{}] })).toContain(`${list}.0.name`)
  })
})

it('a name cannot be both a secret and a reference', () => {
  const both = {
    secrets: [{ name: 'A', value: MASK }],
    secret_references: [{ name: 'A', secret_name: 'a', secret_key: 'a' }],
  }
  expect(faults(DeploymentPatch, both)).toEqual(['secret_references.0.name'])
})

it('a reference has a secret_name and a secret_key that are valid in Kubernetes', () => {
  const checkReference = (secret_name: unknown, secret_key: unknown) =>
    faults(DeploymentPatch, { secret_references: [{ name: 'A', secret_name, secret_key }] })
  expect(checkReference('A', 'a/b')).toEqual(['secret_references.0.secret_name', 'secret_references.0.secret_key'])
  expect(checkReference(null, '')).toEqual(['secret_references.0.secret_name', 'secret_references.0.secret_key'])
})

describe('a patch', () => {
  it('can be empty, and every member can be null', () => {
    expect(DeploymentPatch.parse({})).toEqual({})
    const nulls = Object.fromEntries(Object.keys(DeploymentPatch.shape).map(name => [name, null]))
    expect(DeploymentPatch.parse(nulls)).toEqual(nulls)
  })

  it.each(['githost', 'internal_container', 'internal_source'])(
    'can take one revision from the source %s',
    revision_source => {
      expect(faults(DeploymentPatch, { revision_source })).toEqual([])
    },
  )

  it('cannot take a revision from another source, and ignores repo_commit_sha', () => {
    for (const revision_source of ['external_container', 'internal_template', '', 1])
      expect(faults(DeploymentPatch, { revision_source })).toEqual(['revision_source'])
    expect(DeploymentPatch.parse({ source_revision_config: { repo_commit_sha: 'x' } })).toEqual({
      source_revision_config: {},
    })
  })
})

describe('a response', () => {
  it.each([
    ['Deployment', Deployment],
    ['Revision', Revision],
    ['SourceConfig', Deployment.shape.source_config],
    ['SourceRevisionConfig', Deployment.shape.source_revision_config],
  ] as const)('with %s has every member, even if it is null', (_, schema) => {
    const members = Object.entries<z.ZodType>(schema.shape).filter(([, member]) => member.safeParse(undefined).success)
    // Only answers to `include=summary` and `reveal=true` have them.
    const asked = ['summary', 'application_key']
    expect(members.map(([name]) => name).filter(name => !asked.includes(name))).toEqual([])
  })

  it('can have null for every member of a configuration', () => {
    for (const schema of [Deployment.shape.source_config, Deployment.shape.source_revision_config]) {
      const nulls = Object.fromEntries(Object.keys(schema.shape).map(name => [name, null]))
      expect(schema.parse(nulls)).toEqual(nulls)
    }
  })
})
