// The chart's schema is closed and complete, and agrees with the code whose values it repeats.
// test/proof/trials/chart.ts has the real Helm render it.
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Validator } from '@cfworker/json-schema'
import { load } from 'js-yaml'
import { expect, it } from 'vitest'
import { pinImages } from '../../scripts/chart-package.ts'
import { renderReadme, type Schema } from '../../scripts/chart-readme.ts'
import { readConfig, SETTINGS } from '../../src/env.ts'

const ROOT = join(import.meta.dirname, '../..')
const read = (path: string) => readFileSync(join(ROOT, path), 'utf8')
const schema: Schema = JSON.parse(read('deploy/chart/values.schema.json'))
const values = load(read('deploy/chart/values.yaml')) as Record<string, unknown>

/** The chart fixes the address that the pod listens on, and the folder where archives are mounted. */
const SET_BY_CHART = ['HOST', 'PORT', 'UPLOADS_DIR', 'RELAY_URL']
const AGENT_SET_BY_CHART = [
  'SLIPWAY_LISTENER_KEY',
  'METRICS_TOKEN',
  'K8S_NAMESPACES',
  'AGENT_METRICS_PORT',
  'AGENT_METRICS_HOST',
]
/** Settings of the engines that run processes and containers on one machine. */
const OTHER_ENGINES = [
  'APPS_DOMAIN',
  'TRUSTED_PROXIES',
  'AGENT_DATABASE_URL',
  'AGENT_BUILD_ENV',
  'AGENT_RUN_AS',
  'AGENT_APPS_HOME',
  'AGENT_CGROUP',
  'AGENT_CPU_LIMITS',
  'AGENT_MAX_COPIES',
  'AGENT_MAX_DISK_GI',
  'AGENT_USER_NAMESPACES',
  'AGENT_PROXY',
]

const ADVICE = 'Add them to deploy/chart/values.schema.json, and run `npm run chart:readme`.'

type Place = { path: string; schema: Schema }
const listPlaces = (schema: Schema, path: string): Place[] => [
  { path, schema },
  ...Object.entries(schema.properties ?? {}).flatMap(([name, member]) => listPlaces(member, `${path}.${name}`)),
  ...Object.entries(schema.$defs ?? {}).flatMap(([name, member]) => listPlaces(member, `${path}#${name}`)),
  ...(schema.items ? listPlaces(schema.items, `${path}[]`) : []),
]
const places = listPlaces(schema, '')

it('allows no unknown member where it knows the members', () => {
  const open = places.filter(({ schema }) => schema.properties && schema.additionalProperties !== false)
  expect(open.map(({ path }) => path)).toEqual([])
})

it('describes every value', () => {
  const isOfDefinition = (path: string) => path.includes('#') || path.includes('[]')
  const bare = places.filter(({ path, schema }) => !isOfDefinition(path) && !schema.properties && !schema.description)
  expect(bare.map(({ path }) => path)).toEqual([])
})

it('has the values of values.yaml, and those have a default each', () => {
  const free = ['.settings', '.secrets', '.agent.settings', '.global']
  const leavesOf = ({ properties = {} }: Schema, path: string): string[] =>
    Object.entries(properties).flatMap(([name, member]) => {
      const at = `${path}.${name}`
      if (free.includes(at)) return []
      return member.properties ? leavesOf(member, at) : [at]
    })
  const valueAt = (path: string) =>
    path
      .slice(1)
      .split('.')
      .reduce<unknown>((value, name) => (value as Record<string, unknown> | undefined)?.[name], values)
  expect(leavesOf(schema, '').filter(path => valueAt(path) === undefined)).toEqual([])
  expect(new Validator(schema as object, '2020-12', false).validate(values).errors).toEqual([])
})

it('knows every setting of the control plane and of its agent', () => {
  const { settings, secrets, agent } = schema.properties!
  const known = [...Object.keys(settings!.properties!), ...Object.keys(secrets!.properties!), ...SET_BY_CHART]
  const rows = [...read('docs/reference/settings.md').matchAll(/^\| (`[A-Z].*?) \|/gm)].map(([, names]) => names!)
  const documented = rows.flatMap(names => [...names.matchAll(/`([A-Z][A-Z0-9_]+)`/g)].map(([, name]) => name!))
  expect(documented.length).toBeGreaterThan(40)
  expect(
    [...SETTINGS, ...documented].filter(name => !known.includes(name)),
    ADVICE,
  ).toEqual([])

  const knownToAgent = [
    ...Object.keys(agent!.properties!.settings!.properties!),
    ...AGENT_SET_BY_CHART,
    ...OTHER_ENGINES,
  ]
  const ofAgent = [...read('src/agent/main.ts').matchAll(/^([A-Z][A-Z0-9_]+) {2,}/gm)].map(([, name]) => name!)
  const ofKubernetes = [...read('docs/operate/kubernetes.md').matchAll(/^\| `(K8S_\w+)` \|/gm)].map(([, name]) => name!)
  expect(
    [...ofAgent, ...ofKubernetes].filter(name => !knownToAgent.includes(name)),
    ADVICE,
  ).toEqual([])
})

it('has a set of values with every setting, which the control plane would accept', () => {
  const all = load(read('deploy/chart/ci/every-setting.yaml')) as { settings: Record<string, unknown> }
  const known = Object.keys(schema.properties!.settings!.properties!)
  expect(Object.keys(all.settings).sort(), ADVICE).toEqual(known.sort())
  const text = (value: unknown) => (Array.isArray(value) ? value.join(',') : String(value))
  const settings = Object.fromEntries(Object.entries(all.settings).map(([name, value]) => [name, text(value)]))
  const others = SETTINGS.filter(
    name => /^(UPLOADS_S3|REGISTRY|GITHUB|OIDC|SMTP|EMAILS)_/.test(name) && name in settings,
  )
  for (const name of others) delete settings[name]
  const DATABASE_URL = 'postgres://app:pw@db.example.com/slipway'
  expect(() => readConfig({ ...settings, DATABASE_URL, SEALING_KEYS: `k1:${'A'.repeat(43)}` })).not.toThrow()
})

it('is packaged with the registry of its images', () => {
  const text = pinImages(read('deploy/chart/values.yaml'), null, 'ghcr.io/acme')
  expect(load(text)).toMatchObject({ images: { registry: 'ghcr.io/acme' } })
})

it('grants the agent the Role that docs/operate/kubernetes.md shows', () => {
  const documented = load(/```yaml\n(.*?)```/s.exec(read('docs/operate/kubernetes.md'))![1]!) as { rules: unknown }
  expect(load(read('deploy/chart/files/agent-role-rules.yaml'))).toEqual({ rules: documented.rules })
})

it('has the alerts and the dashboard of deploy/monitoring', () => {
  for (const file of ['alerts.yaml', 'dashboard.json'])
    expect(read(`deploy/chart/files/${file}`), file).toBe(read(`deploy/monitoring/${file}`))
})

it.each(readdirSync(join(ROOT, 'deploy/chart/ci')))('allows ci/%s', file => {
  const { errors } = new Validator(schema as object, '2020-12', false).validate(load(read(`deploy/chart/ci/${file}`)))
  expect(errors).toEqual([])
})

it('is what the tables of README.md were made from', () => {
  const readme = read('deploy/chart/README.md')
  expect(readme).toBe(renderReadme(readme, schema, values))
})
