// From a compose file to deployments.
import { describe, expect, test } from 'vitest'
import { interpolate } from '../../src/cli/compose/interpolate.ts'
import { type TranslateOptions, translateCompose } from '../../src/cli/compose/translate.ts'
import { parseImageName } from '../../src/cli/images/image-name.ts'

const translate = (value: object, more: Partial<TranslateOptions> = {}) =>
  translateCompose(value, { suggested: 'shop', variables: {}, readEnvFile: () => null, ...more })
const WEB = { build: '.', ports: ['8080:5000'] }
const DB = {
  image: 'postgres:16-alpine',
  volumes: ['data:/var/lib/postgresql/data'],
  environment: { POSTGRES_DB: 'a' },
}
/** The paths of the faults. */
const faultsOf = (services: object, more: object = {}) =>
  translate({ services, ...more }).faults.map(({ path }) => path.join('.'))

test('an application with its database and cache becomes one deployment', () => {
  const { project, planned, faults, notes } = translate({
    name: 'Book Shop',
    services: {
      web: {
        ...WEB,
        build: { context: './web' },
        depends_on: { db: { condition: 'service_healthy' } },
        command: ['flask', 'run', '--name', 'a b'],
        environment: [
          'DATABASE_URL=postgresql://app:pw@db:5432/app',
          'REDIS_URL=redis://cache:6379/0',
          'MODE=fast',
          'PORT=5000',
          `DEBUG=\${DEBUG:-no}`,
        ],
        deploy: { replicas: 2, resources: { limits: { cpus: '0.5', memory: '512M' } } },
        restart: 'always',
      },
      db: DB,
      cache: { image: 'docker.io/valkey/valkey:8' },
    },
    volumes: { data: null },
    'x-anything': 1,
  })
  expect(faults).toEqual([])
  expect(project).toBe('book-shop')
  expect(planned).toEqual([
    {
      service: 'web',
      image: null,
      build: { folder: './web', start_command: "flask run --name 'a b'", port: '5000' },
      secrets: { MODE: 'fast', DEBUG: 'no' },
      document: {
        kind: 'Deployment',
        name: 'book-shop-web',
        secrets: ['MODE', 'DEBUG'],
        spec: {
          source: 'internal_source',
          source_config: {
            resource_spec: {
              ...{ db_max_connections: 100, redis_memory_mb: 256, min_scale: 2, max_scale: 2 },
              ...{ cpu: 0.5, cpu_limit: 0.5, memory_mb: 512, memory_limit_mb: 512 },
            },
          },
          source_revision_config: {},
        },
      },
    },
  ])
  for (const named of ['`db`', '`cache`', '`DATABASE_URL`', '`REDIS_URL`', '`PORT`', '`restart`'])
    expect(notes.join('\n')).toContain(named)
})

test('services that do not need each other become deployments of one group, also by image', () => {
  const { planned, faults } = translate({
    services: {
      web: { ...WEB, depends_on: ['db'] },
      docs: { image: 'nginx:1', ports: [{ target: 80, published: 8081 }], profiles: [] },
      db: DB,
      tool: { image: 'adminer', profiles: ['debug'] },
    },
  })
  expect(faults).toEqual([])
  expect(planned.map(({ image, document: { name, spec } }) => [name, image, spec])).toMatchObject([
    ['shop-web', null, { source_config: { resource_spec: { db_max_connections: 100 } } }],
    [
      'shop-docs',
      'nginx:1',
      { source_config: { resource_spec: {} }, source_revision_config: { image_uri: 'nginx:1' } },
    ],
  ])
})

test.each([
  ['nginx', 'registry-1.docker.io', 'library/nginx', 'latest'],
  ['acme/web:1.2', 'registry-1.docker.io', 'acme/web', '1.2'],
  ['docker.io/library/nginx:1', 'registry-1.docker.io', 'library/nginx', '1'],
  ['localhost/web', 'localhost', 'web', 'latest'],
  ['registry.test:5000/a/b/web:1@sha256:ab', 'registry.test:5000', 'a/b/web', 'sha256:ab'],
])('the image %s is found as Docker finds it', (image, host, repository, reference) => {
  expect(parseImageName(image)).toEqual({ host, repository, reference })
})

test('variables of the shell are named, and those of .env and of nobody are not', () => {
  const environment = { A: '$TOKEN', B: '$OWN' }
  const shell = { TOKEN: 'secret', OTHER: 'x', OWN: 'p' }
  const file = { services: { web: { ...WEB, environment } } }
  const { notes, planned } = translate(file, { variables: { TOKEN: 'old', OWN: 'o' }, shell })
  expect(notes).toContain('Taken from the environment of this shell: `TOKEN`, `OWN`.')
  expect(planned[0]!.secrets).toEqual({ A: 'secret', B: 'p' })
  expect(translate(file, { variables: { TOKEN: 'old', OWN: 'o' } }).notes).toEqual([])
})

test('the name that is given wins, and an env_file comes before the environment', () => {
  const files: Record<string, Record<string, string>> = { '.env.web': { A: 'file', B: 'file' } }
  const web = { ...WEB, env_file: [{ path: '.env.web' }, { path: 'none', required: false }], environment: { B: 'own' } }
  const { planned } = translate(
    { name: 'other', services: { web } },
    { name: 'mine', readEnvFile: path => files[path] ?? null },
  )
  expect(planned[0]).toMatchObject({ document: { name: 'mine-web' }, secrets: { A: 'file', B: 'own' } })
})

test('merge keys and variables of the environment are resolved', () => {
  const common = { environment: { MODE: 'shared', LEVEL: null }, ...WEB }
  const { planned, faults } = translate(
    { 'x-common': common, services: { web: { '<<': common, ports: [80] } } },
    { variables: { LEVEL: 'high' } },
  )
  expect(faults).toEqual([])
  expect(planned[0]).toMatchObject({ secrets: { MODE: 'shared', LEVEL: 'high' }, build: { port: '80' } })
})

describe('cannot be translated, and is named:', () => {
  test.each<[title: string, services: object, paths: string[]]>([
    ['a member without a meaning here', { web: { ...WEB, privileged: true } }, ['services.web.privileged']],
    [
      'another Dockerfile',
      { web: { ...WEB, build: { dockerfile: 'a.Dockerfile', args: {} } } },
      ['services.web.build.dockerfile', 'services.web.build.args'],
    ],
    ['a repository', { web: { ...WEB, build: 'https://git.example.com/a.git' } }, ['services.web.build']],
    ['a command of an image', { web: { image: 'nginx', ports: [80], command: 'x' } }, ['services.web.command']],
    ['neither image nor build', { web: { ports: [80] } }, ['services.web']],
    ['several ports', { web: { ...WEB, ports: ['80:80', '443:443'] } }, ['services.web.ports']],
    ['no port', { web: WEB, worker: { build: './worker' } }, ['services.worker']],
    ['a disk of an application', { web: { ...WEB, volumes: ['files:/files'] } }, ['services.web.volumes.0']],
    [
      'a file of an image',
      { web: { image: 'nginx', ports: [80], volumes: ['./a:/etc/a'] } },
      ['services.web.volumes.0'],
    ],
    [
      'a file of a database',
      { web: WEB, db: { ...DB, volumes: ['./a.sql:/docker-entrypoint-initdb.d/a.sql'] } },
      ['services.db.volumes.0'],
    ],
    [
      'the host of a database',
      { web: { ...WEB, environment: { DB_HOST: 'db', DB_USER: 'db' } }, db: DB },
      ['services.web.environment.DB_HOST'],
    ],
    [
      'a driver in the address of a database',
      {
        web: { ...WEB, environment: { DATABASE_URL: 'postgresql+asyncpg://a@db/a' } },
        db: DB,
      },
      ['services.web.environment.DATABASE_URL'],
    ],
    ['a database of another kind', { web: WEB, db: { image: 'mysql:8' } }, ['services.db']],
    [
      'a database that two use',
      { web: { ...WEB, depends_on: ['db'] }, api: { ...WEB, depends_on: ['db'] }, db: DB },
      ['services.db'],
    ],
    ['a database that none of several uses', { web: WEB, api: WEB, db: DB }, ['services.db']],
    ['two databases of one', { web: WEB, one: DB, two: DB }, ['services.two']],
    [
      'another application by its name',
      { web: { ...WEB, environment: { API: 'http://api:80/v1' } }, api: WEB },
      ['services.web.environment.API'],
    ],
    [
      'another application that it waits for',
      { web: { ...WEB, depends_on: ['api'] }, api: WEB },
      ['services.web.depends_on'],
    ],
    [
      'a variable without a value',
      { web: { ...WEB, environment: ['A', `B=\${B}`] } },
      ['services.web.environment.1', 'services.web.environment.0'],
    ],
    ['a missing env_file', { web: { ...WEB, env_file: '.env.web' } }, ['services.web.env_file.0']],
    [
      'an amount that is none',
      { web: { ...WEB, deploy: { resources: { limits: { memory: 'much' } } } } },
      ['services.web.deploy'],
    ],
    ['no service at all', {}, ['services']],
  ])('%s', (_, services, paths) => {
    expect(faultsOf(services)).toEqual(paths)
  })

  test('secrets, configs and included files', () => {
    expect(faultsOf({ web: WEB }, { secrets: {}, include: [] })).toEqual(['secrets', 'include'])
  })

  test.each([
    null,
    7,
    'text',
    [],
    { services: null },
    { services: { web: null } },
    { services: { web: { ports: {} } } },
  ])('a file that is no compose file: %j', value => {
    expect(translate(value as object).faults).not.toEqual([])
  })
})

describe('a variable', () => {
  const variables = { A: 'a', EMPTY: '' }
  test.each<[text: string, expanded: string, missing?: string[]]>([
    [`$A-\${A}b`, 'a-ab'],
    [`$$A \${`, `$A \${`],
    ['cost: 5$', 'cost: 5$'],
    [`\${EMPTY:-x}\${EMPTY-x}\${NONE-y}\${NONE:-\${A}z}`, 'xyaz'],
    [`\${A:+set}\${NONE+set}\${EMPTY:+set}`, 'set'],
    [`$NONE/\${NONE}/\${NONE:?give it}`, '//', ['NONE', 'NONE', 'NONE (give it)']],
    [`\${}`, '', ['']],
  ])('in %s', (text, expanded, missing = []) => {
    expect(interpolate(text, variables)).toEqual({ text: expanded, missing })
  })
})
