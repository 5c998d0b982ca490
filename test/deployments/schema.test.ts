import { describe, expect, it } from 'vitest'
import * as z from 'zod'
import * as schemas from '../../src/deployments/schema.ts'
import { MASK, sources } from '../../src/protocol/parts.schema.ts'
import * as fc from '../support/seeded-fast-check.ts'

const { Deployment, DeploymentPatch, NewDeployment, Revision } = schemas

const ID = '8f14e45f-ceea-467f-9b5a-3b1c0a5c9d11'
const faults = (schema: z.ZodType, value: unknown) => [
  ...new Set(schema.safeParse(value).error?.issues.map(issue => issue.path.join('.'))),
]
const body = { name: 'a', source: 'githost', source_config: {}, source_revision_config: {}, secrets: [] }
const long = (count: number) => 'a'.repeat(count)
const put = (path: string, value: unknown) => {
  const [place, member] = path.split('.') as [string, string?]
  return { [place]: member ? { [member]: value } : value }
}

describe('examples', () => {
  it.each([
    ['NewDeployment', NewDeployment],
    ['DeploymentPatch', DeploymentPatch],
  ] as const)('%s has a valid one', (_, schema) => {
    expect(schema.parse(schema.meta()!.example)).toEqual(schema.meta()!.example)
  })

  it.each(Object.entries(schemas).filter(([, one]) => one instanceof z.ZodType))(
    '%s can be documented',
    (_, schema) => {
      for (const io of ['input', 'output'] as const) {
        const document = z.toJSONSchema(schema as z.ZodType, { io, unrepresentable: 'any' })
        for (const [name, definition] of Object.entries(document.$defs ?? {}))
          expect(definition.type, name).toBeDefined()
      }
    },
  )
})

describe('a new deployment', () => {
  it('needs its members, and ignores strangers', () => {
    expect(NewDeployment.parse({ ...body, tags: [], source_config: { x: 1 } })).toEqual(body)
    expect(faults(NewDeployment, {}).sort()).toEqual(Object.keys(body).sort())
    for (const member of Object.keys(body)) expect(faults(NewDeployment, { ...body, [member]: null })).toEqual([member])
    expect(faults(NewDeployment, { ...body, secret_references: null })).toEqual([])
  })

  it.each([
    [true, ['a', '0', 'a-b', 'a--b', long(63)]],
    [false, ['', 'A', '-a', 'a-', 'a_b', 'a.b', 'a b', long(64), 'a\n', 'é', 1]],
  ])('has a name: %s', (good, names) => {
    for (const name of names) expect(faults(NewDeployment, { ...body, name }), `${name}`).toEqual(good ? [] : ['name'])
  })

  it.each(sources)('comes from %s', source => {
    expect(faults(NewDeployment, { ...body, source })).toEqual([])
  })
})

const REFUSED = ["'", '"', '\\', '`', '\r', '\n', '\0', '\t', '|', ';', '$', '<', '>']
const COMMANDS = {
  good: ['npm ci', 'npm ci && npm run build', 'a&&b', 'pip install -r requirements.txt', 'make -j4 (x) {y} *', 'é'],
  bad: [
    '',
    '&',
    'a & b',
    'a &',
    'a &&& b',
    'a && b & c',
    ...REFUSED.map(odd => `a${odd}b`),
    ...REFUSED,
    1,
    ['a'],
    long(1025),
  ],
}
const PATHS = {
  good: ['platform.json', './a.json', 'a/b/c.json', '..a/b..', 'a b'],
  bad: ['', '/a', '..', '../a', 'a/..', 'a/../b', 'a\\b', 'a\nb', long(1025), 1],
}
const MEMBERS: Record<string, { good: unknown[]; bad: unknown[] }> = {
  'source_config.integration_id': { good: [ID], bad: ['', 'x', `${ID}0`, 1] },
  'source_config.repo_url': {
    good: ['https://github.com/acme/shop', 'http://git.local:3000/a/b.git', 'https://a/b%20c', 'https://a/~b/@c'],
    bad: [
      ...[
        '',
        'github.com/a/b',
        'git@github.com:a/b.git',
        'ssh://git@a/b',
        'ftp://a/b',
        'https://',
        'https://a',
        'https://a/',
      ],
      ...['https://me@a/b', 'https://me:pw@a/b', 'https://a/b?c', 'https://a/b#c', 'https://a/b c', 'file:///a', 1],
      `https://a/${long(2048)}`,
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
      ...['', 'http://a.b', 'https://', 'a b', 'https://me@a.b', '-a.b', 'a..b', '//a.b', 'javascript:x', 'a/b', 1],
      ...['/pay', 'https:///pay', '*.a.b', 'https://*.a.b/x', 'a.b.', 'bücher.example', 'a.b:99999'],
      ...['192.0.2.7', '127.1', '0x7f.1', '[::1]', 'https://a.b/x?y', 'https://a.b/x#y', 'https://a.b/x\\y', 'a_b.c'],
      ...[`${long(64)}.b`, `${'a.'.repeat(127)}b`, `https://a.b/${long(2048)}`],
    ],
  },
  'source_config.resource_spec': { good: [{}, { cpu: 1 }], bad: [1, [], 'x'] },
  'source_config.listener_id': { good: [ID], bad: ['x'] },
  'source_config.listener_config': { good: [{}, { k8s_namespace: 'apps' }], bad: ['apps', []] },
  'source_config.install_command': COMMANDS,
  'source_config.build_command': COMMANDS,
  'source_config.deployment_type': { good: ['dev_free', 'dev', 'prod'], bad: ['', 'PROD', 'free', 1] },
  'source_config.template_id': { good: ['chat', ID], bad: ['', 1, long(129)] },
  'source_revision_config.repo_ref': {
    good: ['main', 'refs/heads/a/b', 'refs/tags/v1.0', 'feature/x#1', long(40), 'é'],
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
      long(256),
      1,
    ],
  },
  'source_revision_config.platform_config_path': PATHS,
  'source_revision_config.image_uri': {
    good: ['app', 'reg.example:5000/a/b:v1', `ghcr.io/a/b@sha256:${'0'.repeat(64)}`, `a:1@sha256:${'f'.repeat(64)}`],
    bad: ['', 'A', 'https://a/b', 'a:', 'a@sha256:0', 'a b', 'a//b', ':1', 1, `${long(520)}`],
  },
  'source_revision_config.source_tarball_path': { good: ['uploads/1.tgz'], bad: ['', 1, long(1025)] },
}

describe.each(Object.entries(MEMBERS))('%s', (path, { good, bad }) => {
  it.each([
    ['a new deployment', NewDeployment, body],
    ['a patch', DeploymentPatch, {}],
  ] as const)('of %s', (_, schema, rest) => {
    for (const value of good) expect(schema.parse({ ...rest, ...put(path, value) })).toMatchObject(put(path, value))
    for (const value of bad) expect(faults(schema, { ...rest, ...put(path, value) }), `${value}`).toEqual([path])
  })

  it('null is left out', () => {
    const [place] = path.split('.') as [string]
    expect(DeploymentPatch.parse(put(path, null))).toEqual({ [place]: {} })
  })
})

it('a namespace is a DNS label', () => {
  const at = (k8s_namespace: unknown) =>
    faults(DeploymentPatch, { source_config: { listener_config: { k8s_namespace } } })
  for (const name of ['apps', 'a-1', long(63), null]) expect(at(name)).toEqual([])
  for (const name of ['', 'A', 'a.b', long(64), 1])
    expect(at(name)).toEqual(['source_config.listener_config.k8s_namespace'])
})

it('knows every member of the two configurations', () => {
  const { source_config, source_revision_config } = NewDeployment.shape
  const names = Object.entries({ source_config, source_revision_config }).flatMap(([place, schema]) =>
    Object.keys(schema.shape).map(member => `${place}.${member}`),
  )
  expect(names.sort()).toEqual(Object.keys(MEMBERS).sort())
})

it('a command is safe exactly when nothing but pairs of & is left of what a shell would read', () => {
  const pieces = fc.constantFrom('npm', ' ', '&', '&&', ...REFUSED)
  fc.assert(
    fc.property(fc.array(pieces, { minLength: 1 }), parts => {
      const build_command = parts.join('')
      const safe = !/['"\\`\r\n\0\t|;$<>&]/.test(build_command.replaceAll('&&', ''))
      expect(faults(DeploymentPatch, { source_config: { build_command } }).length === 0).toBe(safe)
    }),
  )
})

it('stays quick when a member is as long as a body may be', () => {
  const before = Date.now()
  for (const path of Object.keys(MEMBERS)) {
    for (const piece of ['a', 'a/', '&&', '&', '-', '.', 'a.', 'a-', '_', ':', 'https://a/', '@{', '../']) {
      const value = piece.repeat(1_000_000 / piece.length)
      for (const text of [value, `${value}\n`, `a${value}!`]) DeploymentPatch.safeParse(put(path, text))
    }
  }
  expect(Date.now() - before).toBeLessThan(20_000)
})

describe.each(['secrets', 'secret_references'] as const)('%s', list => {
  const item = (name: unknown) =>
    list === 'secrets' ? { name, value: '' } : { name, secret_name: 'a.b', secret_key: 'A_b.c-1' }
  const paths = (names: unknown[]) => faults(DeploymentPatch, { [list]: names.map(item) })

  it('have names that an environment can hold', () => {
    expect(paths(['A', '_', 'a1', 'PORT_', 'MY_PORT', 'port', 'SLIPWAY', long(253)])).toEqual([])
    for (const name of ['', '1A', 'A-B', 'A.B', 'A B', 'A=B', 'É', 'A\n', long(254), null, 1])
      expect(paths([name]), `${name}`).toEqual([`${list}.0.name`])
  })

  it('leave the platform its names', () => {
    for (const name of ['PORT', 'PATH', 'DATABASE_URI', 'REDIS_URI', 'SLIPWAY_', 'SLIPWAY_X']) {
      const { error } = DeploymentPatch.safeParse({ [list]: [item('A'), item(name)] })
      expect(error!.issues.map(issue => issue.path)).toEqual([[list, 1, 'name']])
      expect(error!.issues[0]!.message).toContain(name)
    }
  })

  it('are named once, whatever else is wrong', () => {
    expect(paths(['A', 'B', 'A', 'A'])).toEqual([`${list}.2.name`, `${list}.3.name`])
    expect(faults(DeploymentPatch, { [list]: [item('A'), item('A'), 1], source_config: 1 }).sort()).toEqual(
      [`${list}.1.name`, `${list}.2`, 'source_config'].sort(),
    )
  })

  it('may be null in a patch', () => {
    expect(paths([])).toEqual([])
    expect(faults(DeploymentPatch, { [list]: null })).toEqual([])
    expect(faults(DeploymentPatch, { [list]: [{}] })).toContain(`${list}.0.name`)
  })
})

it('a name is either a secret or a reference', () => {
  const both = {
    secrets: [{ name: 'A', value: MASK }],
    secret_references: [{ name: 'A', secret_name: 'a', secret_key: 'a' }],
  }
  expect(faults(DeploymentPatch, both)).toEqual(['secret_references.0.name'])
})

it('a reference names what Kubernetes can hold', () => {
  const at = (secret_name: unknown, secret_key: unknown) =>
    faults(DeploymentPatch, { secret_references: [{ name: 'A', secret_name, secret_key }] })
  expect(at('A', 'a/b')).toEqual(['secret_references.0.secret_name', 'secret_references.0.secret_key'])
  expect(at(null, '')).toEqual(['secret_references.0.secret_name', 'secret_references.0.secret_key'])
})

describe('a patch', () => {
  it('may be empty, and all of it may be null', () => {
    expect(DeploymentPatch.parse({})).toEqual({})
    const nulls = Object.fromEntries(Object.keys(DeploymentPatch.shape).map(name => [name, null]))
    expect(DeploymentPatch.parse(nulls)).toEqual(nulls)
  })

  it.each(['githost', 'internal_container', 'internal_source'])('may take this revision from %s', revision_source => {
    expect(faults(DeploymentPatch, { revision_source })).toEqual([])
  })

  it('takes it from nowhere else, and no commit', () => {
    for (const revision_source of ['external_container', 'internal_template', '', 1])
      expect(faults(DeploymentPatch, { revision_source })).toEqual(['revision_source'])
    expect(DeploymentPatch.parse({ name: 'b', source_revision_config: { repo_commit_sha: 'x' } })).toEqual({
      source_revision_config: {},
    })
  })
})

describe('an answer', () => {
  it.each([
    ['Deployment', Deployment],
    ['Revision', Revision],
    ['SourceConfig', Deployment.shape.source_config],
    ['SourceRevisionConfig', Deployment.shape.source_revision_config],
  ] as const)('%s has every member, null when unset', (_, schema) => {
    expect(Object.values<z.ZodType>(schema.shape).filter(member => member.safeParse(undefined).success)).toEqual([])
  })

  it('a configuration may be null throughout', () => {
    for (const schema of [Deployment.shape.source_config, Deployment.shape.source_revision_config]) {
      const nulls = Object.fromEntries(Object.keys(schema.shape).map(name => [name, null]))
      expect(schema.parse(nulls)).toEqual(nulls)
    }
  })
})
