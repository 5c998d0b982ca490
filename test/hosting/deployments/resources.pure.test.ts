import { describe, expect, it } from 'vitest'
import { deploymentTypes, ResourceSpec, toMillicores, withDefaults } from '../../../src/protocol/resources.schema.ts'
import * as fc from '../../support/seeded-fast-check.ts'

const faults = (spec: unknown) => ResourceSpec.safeParse(spec).error?.issues.map(issue => issue.path.join('.')) ?? []

it.each([
  [0.1 + 0.2, 300],
  [1.005, 1005],
  [4.35, 4350],
  [0.001, 1],
  [16, 16_000],
])('%j CPUs are %j thousandths, and stay as they were sent', (cpus, millicores) => {
  expect(toMillicores(cpus)).toBe(millicores)
  expect(ResourceSpec.parse({ cpu_limit: cpus })).toEqual({ cpu_limit: cpus })
})

it('a limit that differs from its request by an error of floating point is the same', () => {
  expect(faults({ cpu: 0.1 + 0.2, cpu_limit: 0.3 })).toEqual([])
  expect(faults({ cpu: 0.301, cpu_limit: 0.3 })).toEqual(['cpu_limit'])
})

it('every fraction of a thousandth is accepted', () => {
  for (let millicores = 1; millicores <= 8000; millicores++)
    expect(faults({ cpu: millicores / 1000, cpu_limit: millicores * 0.001 })).toEqual([])
})

type Kind = { good: unknown[]; bad: unknown[] }
const notNumbers = ['1', true, {}, []]
/** Sums and products of floating point have an error that is no finer fraction. */
const FRACTIONS = [0.001, 0.25, 1.005, 0.1 + 0.2, 3 * 1.1, 4.35, 7.999]
const TOO_FINE = [0, 0.0004, 0.0009, 0.0015, 0.12345, 1.0051]
const CPU: Kind = { good: [...FRACTIONS, 8], bad: [...TOO_FINE, 8.001, -1, ...notNumbers] }
const CPU_LIMIT: Kind = { good: [...FRACTIONS, 8.125, 15.999, 16], bad: [...TOO_FINE, 16.001, ...notNumbers] }
const MEMORY: Kind = { good: [64, 65, 1_000_000], bad: [63, 0, -64, 64.5, ...notNumbers] }
const SCALE: Kind = { good: [0, 1, 1000], bad: [-1, 0.5, 1001, ...notNumbers] }
const POSITIVE: Kind = { good: [1, 100], bad: [0, -1, 1.5, ...notNumbers] }
const repeatA = (count: number) => 'a'.repeat(count)
const SUBDOMAIN: Kind = {
  good: ['a', 'runner', 'a-b.c-d', '0', repeatA(253)],
  bad: ['', 'A', 'a_b', '-a', 'a-', 'a..b', '.a', repeatA(254), 1, 'a\n'],
}
const KEYS = {
  good: ['app', 'constructor', 'prototype', 'A.b_c-1', repeatA(63), 'example.com/app', `${repeatA(253)}/x`],
  bad: [
    '',
    '-a',
    'a-',
    '_a',
    '__proto__',
    repeatA(64),
    '/a',
    'a/',
    'Example.com/a',
    'a/b/c',
    'a b',
    `${repeatA(254)}/x`,
  ],
}
const makeContainerOf = (name: string) => [{ name: 'side', image: name }]
const CONTAINERS: Kind = {
  good: [
    [],
    ...['a', 'a/b:1', 'reg.io:5000/a__b/c-d:v1.0', `a@sha256:${repeatA(64)}`, 'localhost/a'].map(makeContainerOf),
  ],
  bad: [
    {},
    [1],
    [{ name: 'a' }],
    [{ image: 'a' }],
    [{ name: 'A', image: 'a' }],
    [{ name: null, image: 'a' }],
    [{ name: repeatA(64), image: 'a' }],
    ...['', 'A', 'a:', 'a b', 'a@sha256:ab', 'https://a/b', 'a/', '-a', `a:${repeatA(129)}`, 'a\n'].map(
      makeContainerOf,
    ),
    ...[['1A'], ['A=B'], ['']].map(([name]) => [{ name: 'a', image: 'a', env: [{ name, value: '' }] }]),
    [{ name: 'a', image: 'a', env: [{ value: '' }] }],
    [{ name: 'a', image: 'a', envFrom: ['x'] }],
    [{ name: 'a', image: 'a', command: 'sh' }],
    [{ name: 'a', image: 'a', args: [1] }],
    [{ name: 'a', image: 'a', resources: { limits: 1 } }],
    [{ name: 'a', image: 'a', volumeMounts: [{ name: 'v' }] }],
    [{ name: 'a', image: 'a', securityContext: [] }],
    [
      { name: 'a', image: 'a' },
      { name: 'a', image: 'b' },
    ],
  ],
}

const FIELDS: Record<string, Kind> = {
  ...Object.fromEntries(
    ['', 'queue_', 'orchestrator_', 'executor_', 'redis_', 'db_'].flatMap(of => [
      [`${of}cpu`, CPU],
      [`${of}cpu_limit`, CPU_LIMIT],
      [`${of}memory_mb`, MEMORY],
      [`${of}memory_limit_mb`, MEMORY],
    ]),
  ),
  ...Object.fromEntries(
    ['', 'queue_', 'orchestrator_'].flatMap(of => [
      [`${of}min_scale`, SCALE],
      [`${of}max_scale`, SCALE],
    ]),
  ),
  request_limit: { good: [1, 50, 100_000], bad: [0, -1, 1.5, 100_001, ...notNumbers] },
  drain_seconds: { good: [1, 300, 3_600], bad: [0, -1, 1.5, 3_601, ...notNumbers] },
  protocol: { good: ['http', 'h2c'], bad: ['h2', 'grpc', '', 1] },
  health_timeout_seconds: { good: [1, 120, 840], bad: [0, -1, 1.5, 841, ...notNumbers] },
  scale_metric: { good: ['fixed', 'concurrency', 'requests', 'cpu', 'memory', 'queue'], bad: ['', 'CPU', 1, [], {}] },
  scale_target: { good: [1, 75, 100_000], bad: [0, -1, 1.5, 100_001, ...notNumbers] },
  scale_path: {
    good: ['/queue', '/a?b=c', `/${repeatA(1023)}`],
    bad: ['', 'queue', '/a b', '/ä', `/${repeatA(1024)}`, 1],
  },
  idle_seconds: { good: [10, 300, 86_400], bad: [9, 0, 10.5, 86_401, ...notNumbers] },
  frozen_seconds: { good: [0, 60, 86_400], bad: [-1, 0.5, 86_401, ...notNumbers] },
  process_scale: {
    good: [{}, { worker: 0, 'mail-out': 1000 }],
    bad: [{ web: 1 }, { Worker: 1 }, { 'a-': 1 }, { worker: -1 }, { worker: 1.5 }, { worker: null }, [], '1', true],
  },
  process_scaling: {
    good: [
      {},
      { worker: { min_scale: 0, max_scale: 8, scale_metric: 'queue', scale_target: 20, scale_path: '/queue/worker' } },
      { worker: { min_scale: 1, max_scale: 1, scale_metric: 'memory' } },
    ],
    bad: [
      { web: { min_scale: 1, max_scale: 2, scale_metric: 'cpu' } },
      { worker: { min_scale: 1, max_scale: 2 } },
      { worker: { min_scale: 3, max_scale: 2, scale_metric: 'cpu' } },
      { worker: { min_scale: 0, max_scale: 0, scale_metric: 'queue' } },
      { worker: { min_scale: 0, max_scale: 2, scale_metric: 'cpu' } },
      { worker: { min_scale: 1, max_scale: 2, scale_metric: 'cpu', scale_path: '/queue' } },
      { worker: { min_scale: 1, max_scale: 2, scale_metric: 'requests' } },
      { worker: { min_scale: 1, max_scale: 2, scale_metric: 'cpu', idle_seconds: 60 } },
      { worker: 2 },
    ],
  },
  process_resources: {
    good: [{}, { worker: {} }, { worker: { cpu: 0.5, cpu_limit: 1, memory_mb: 64, memory_limit_mb: 64 } }],
    bad: [
      { web: { cpu: 1 } },
      { worker: 1 },
      { worker: { gpu: 1 } },
      { worker: { memory_mb: 1 } },
      { worker: { cpu: 2, cpu_limit: 1 } },
    ],
  },
  db_storage_gi: POSITIVE,
  db_max_connections: POSITIVE,
  attached_database: {
    good: ['DATABASE_URL', '_a1', repeatA(253)],
    bad: ['', '1A', 'A-B', 'A B', repeatA(254), 1, []],
  },
  labels: {
    good: [{}, ...KEYS.good.map(key => ({ [key]: 'v' })), ...['', 'A.b_c-1', repeatA(63)].map(value => ({ a: value }))],
    bad: [
      ...KEYS.bad.map(key => ({ [key]: 'v' })),
      ...['-', 'a-', repeatA(64), 'a b', 'a/b', 1, null].map(value => ({ a: value })),
      [],
      'a=b',
    ],
  },
  annotations: {
    good: [{}, ...KEYS.good.map(key => ({ [key]: 'any / thing\n' })), { a: repeatA(256 * 1024 - 1) }],
    bad: [
      ...KEYS.bad.map(key => ({ [key]: 'v' })),
      { a: 1 },
      { a: null },
      { a: repeatA(256 * 1024) },
      { a: 'é'.repeat(128 * 1024) },
    ],
  },
  service_account_name: SUBDOMAIN,
  image_pull_secrets: {
    good: [[], ...SUBDOMAIN.good.map(name => [{ name }])],
    bad: [{}, ['a'], [{}], [{ name: null }], ...SUBDOMAIN.bad.map(name => [{ name }])],
  },
  volumes: {
    good: [[], [{ name: 'v' }], [{ name: 'v', emptyDir: {} }]],
    bad: [
      {},
      [{}],
      [{ emptyDir: {} }],
      [{ name: 'a.b' }],
      [{ name: 'V' }],
      [{ name: 'v', emptyDir: 'x' }],
      [{ name: 'v', configMap: [] }],
      [{ name: 'v' }, { name: 'v' }],
    ],
  },
  volume_mounts: {
    good: [[], [{ name: 'v', mountPath: '/data' }]],
    bad: [{}, [{ name: 'v' }], [{ mountPath: '/x' }], [{ name: 'v', mountPath: 'a:b' }]].concat([
      [{ name: 'v', mountPath: '' }],
      [{ name: 'v', mountPath: '/x', readOnly: 'yes' as never }],
    ]),
  },
  init_containers: CONTAINERS,
  sidecars: CONTAINERS,
}

describe.each(Object.entries(FIELDS))('the field %s', (field, { good, bad }) => {
  it('accepts valid values unchanged', () => {
    for (const value of good) expect(ResourceSpec.parse({ [field]: value }), `${value}`).toEqual({ [field]: value })
  })

  it('refuses invalid values with an error that names the field', () => {
    for (const value of bad) {
      const paths = faults({ [field]: value })
      expect(paths, JSON.stringify(value).slice(0, 80)).not.toEqual([])
      for (const path of paths) expect(path.split('.')[0]).toBe(field)
    }
  })

  it('treats null as missing', () => {
    expect(ResourceSpec.parse({ [field]: null })).toEqual({})
  })
})

it('the table has every field of the schema, and unknown fields are dropped', () => {
  expect(Object.keys(ResourceSpec.shape).sort()).toEqual(Object.keys(FIELDS).sort())
  expect(ResourceSpec.parse({ cpu: 1, gpu: 1 })).toEqual({ cpu: 1 })
})

const PAIRS = [
  ...['', 'queue_', 'orchestrator_', 'executor_', 'redis_', 'db_'].flatMap(of => [
    { low: `${of}cpu`, high: `${of}cpu_limit`, less: 1, more: 1.1 },
    { low: `${of}memory_mb`, high: `${of}memory_limit_mb`, less: 64, more: 65 },
  ]),
  ...['', 'queue_', 'orchestrator_'].map(of => ({ low: `${of}min_scale`, high: `${of}max_scale`, less: 0, more: 1 })),
]

it.each(PAIRS)('$high cannot be less than $low', ({ low, high, less, more }) => {
  expect(faults({ [low]: less, [high]: less })).toEqual([])
  expect(faults({ [low]: less, [high]: more })).toEqual([])
  expect(faults({ [low]: more, [high]: less })).toEqual([high])
})

it('all faults are reported at once, in single fields and between fields', () => {
  expect(
    faults({ cpu: 9, memory_mb: 100, memory_limit_mb: 64, min_scale: 2, max_scale: 1, labels: { '-': 'a' } }).sort(),
  ).toEqual(['cpu', 'labels.-', 'max_scale', 'memory_limit_mb'])
})

it('a process has a fixed number of copies or moves', () => {
  const process_scaling = { worker: { min_scale: 1, max_scale: 2, scale_metric: 'cpu' } }
  expect(faults({ process_scaling, process_scale: { mail: 1 } })).toEqual([])
  expect(faults({ process_scaling, process_scale: { worker: 1 } })).toEqual(['process_scale.worker'])
})

it('the names of init containers and sidecars are unique, and the error names the later one', () => {
  const [a, b] = [
    { name: 'a', image: 'x' },
    { name: 'b', image: 'x' },
  ]
  expect(faults({ init_containers: [a], sidecars: [b, a] })).toEqual(['sidecars.1.name'])
  expect(faults({ init_containers: [a], sidecars: [b] })).toEqual([])
})

const freeForm = fc.dictionary(
  fc.string().filter(key => key !== ''),
  fc.jsonValue(),
)
const volume = fc.record(
  {
    configMap: freeForm,
    secret: freeForm,
    emptyDir: freeForm,
    persistentVolumeClaim: freeForm,
    nfs: freeForm,
    projected: freeForm,
    downwardAPI: freeForm,
    csi: freeForm,
  },
  { requiredKeys: [] },
)
const mount = fc.record({
  name: fc.constant('v'),
  mountPath: fc.constant('/v'),
  subPath: fc.string(),
  mountPropagation: fc.string(),
  subPathExpr: fc.string(),
  readOnly: fc.boolean(),
})
const container = fc.record(
  {
    imagePullPolicy: fc.string(),
    workingDir: fc.string(),
    restartPolicy: fc.string(),
    command: fc.array(fc.string()),
    args: fc.array(fc.string()),
    env: fc.array(
      fc.record({ name: fc.constant('A'), value: fc.string(), valueFrom: freeForm }, { requiredKeys: ['name'] }),
    ),
    envFrom: fc.array(freeForm),
    resources: fc.record({ limits: freeForm, requests: freeForm }, { requiredKeys: [] }),
    volumeMounts: fc.array(mount),
    securityContext: freeForm,
  },
  { requiredKeys: [] },
)

it('free-form objects are stored unchanged, with their nulls and with members named __proto__', () => {
  fc.assert(
    fc.property(volume, mount, container, (volume, mount, container) => {
      const spec = {
        volumes: [{ name: 'v', ...volume }],
        volume_mounts: [mount],
        init_containers: [{ name: 'c', image: 'i', ...container }],
        sidecars: [{ name: 'd', image: 'i', ...container }],
      }
      expect(JSON.stringify(ResourceSpec.parse(spec))).toBe(JSON.stringify(spec))
    }),
  )
  const odd = JSON.parse('{"volumes":[{"name":"v","csi":{"__proto__":{"a":null},"id":"x"}}]}')
  expect(JSON.stringify(ResourceSpec.parse(odd))).toBe(JSON.stringify(odd))
})

it('nulls and unknown members are dropped everywhere else', () => {
  const sidecar = { name: 'c', image: 'i', workingDir: null, stdin: true, env: [{ name: 'A', value: null, x: 1 }] }
  expect(ResourceSpec.parse({ sidecars: [sidecar], volumes: [{ name: 'v', nfs: null, hostPath: {} }] })).toEqual({
    sidecars: [{ name: 'c', image: 'i', env: [{ name: 'A' }] }],
    volumes: [{ name: 'v' }],
  })
})

const arbitraryAmount = (field: string) =>
  field.includes('cpu')
    ? fc.integer({ min: 1, max: 80 }).map(tenths => tenths / 10)
    : fc.integer({ min: field.includes('memory') ? 64 : 1, max: field.endsWith('_scale') ? 1000 : 100_000 })
const amounts = [...PAIRS.flatMap(({ low, high }) => [low, high]), 'db_storage_gi', 'db_max_connections']
/** Swaps the values of every pair that is in the wrong order. */
const orderPairs = (spec: Record<string, number>) => {
  for (const { low, high } of PAIRS) {
    const both = [spec[low], spec[high]].filter(value => value !== undefined)
    if (both.length === 2) [spec[low], spec[high]] = both.sort((a, b) => a - b) as [number, number]
  }
  return spec
}
const anySpec = fc
  .record(Object.fromEntries(amounts.map(field => [field, arbitraryAmount(field)])), { requiredKeys: [] })
  .map(spec => orderPairs({ ...spec } as Record<string, number>))
const someSpec = fc.oneof(
  anySpec,
  fc.constantFrom(...amounts).chain(field => arbitraryAmount(field).map(value => ({ [field]: value }))),
)

describe('withDefaults()', () => {
  it('sets every amount, keeps the given values, and returns a valid specification', () => {
    fc.assert(
      fc.property(someSpec, fc.constantFrom(...deploymentTypes), (spec, type) => {
        const complete = withDefaults(spec, type)
        expect(complete).toMatchObject(spec)
        expect(faults(complete)).toEqual([])
        for (const field of amounts) expect((complete as Record<string, unknown>)[field], field).toBeTypeOf('number')
      }),
    )
  })

  it.each([
    ['sets a limit to twice its request', { cpu: 0.7, memory_mb: 100 }, { cpu_limit: 1.4, memory_limit_mb: 200 }],
    [
      'sets the memory limit of Redis to its request',
      { redis_cpu: 1, redis_memory_mb: 128 },
      { redis_cpu_limit: 2, redis_memory_limit_mb: 128 },
    ],
    [
      'copies the values of the server to the queue',
      { cpu: 2, cpu_limit: 3, max_scale: 7 },
      { queue_cpu: 2, queue_cpu_limit: 3, queue_max_scale: 7 },
    ],
    ['keeps given values of the queue', { cpu: 2, cpu_limit: 3, queue_cpu: 4 }, { queue_cpu: 4, queue_cpu_limit: 8 }],
    ['lowers a missing request to a low limit', { cpu_limit: 0.2, queue_cpu_limit: 0.1 }, { cpu: 0.2, queue_cpu: 0.1 }],
    [
      'raises a missing maximum to a high minimum',
      { min_scale: 50 },
      { max_scale: 50, queue_min_scale: 50, queue_max_scale: 50 },
    ],
    ['treats null as missing', { cpu: 2, cpu_limit: null }, { cpu_limit: 4 }],
    [
      'raises no limit beyond the numbers that the schema takes',
      { memory_mb: Number.MAX_SAFE_INTEGER },
      { memory_limit_mb: Number.MAX_SAFE_INTEGER, queue_memory_limit_mb: Number.MAX_SAFE_INTEGER },
    ],
    ['keeps all other fields', { labels: { a: 'b' } }, { labels: { a: 'b' } }],
  ])('%s', (_, spec, expected) => {
    expect(withDefaults(spec, 'prod')).toMatchObject(expected)
  })
})
