// The rules of the code base: imports run one way, and each responsibility has its owner.
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { describe, expect, it } from 'vitest'
import { sourceFiles as files, SRC as src } from './support/source-files.ts'

const root = join(import.meta.dirname, '..')

/** Slices in the order of their imports. Slices of one layer do not import each other. */
const LAYERS = [
  ['protocol'],
  ['build-plan', 'platform.ts'],
  ['env.ts', 'tables', 'postgres'],
  ['kernel'],
  ['people/access'],
  ['people/events'],
  [
    'hosting/git-hosts',
    'hosting/listeners',
    'connect/oauth',
    'connect/webhooks',
    'connect/channels',
    'connect/words',
    'people/sign-in',
    'people/audit',
  ],
  ['people/authorization-server'],
  ['hosting/deployments'],
  ['tracing/runs'],
  ['hosting/alerts'],
  ['connect/models'],
  ['tracing/datasets'],
  ['tracing/queues'],
  ['tracing/rules'],
  ['tracing/insights'],
  ['hosting/drains'],
  ['hosting/sync', 'hosting/pushes', 'monitoring'],
  ['hosting/relay'],
  ['api-docs', 'dashboard', 'connect/mcp'],
  ['schedule.ts'],
  ['app.ts'],
  ['host', 'client'],
]
/** Programs that are deployed without the control plane. */
const PROGRAMS = ['agent', 'cli']
/** A server for applications, which shares nothing with the rest: it can be deleted, and the rest compiles. */
const APART = 'graphs'
/** Paths that each program may import of the rest. */
const SHARED: Record<string, RegExp> = {
  agent: /^(protocol|postgres|build-plan)\/|^kernel\/(version|db\/s3|db\/streamed-fetch)\.ts$/,
  cli: /^(client|build-plan)\/|^protocol\/(webhook-|tunnel-|(defaults|env-file|glob|versions|reserved-variables)\.ts)/,
}

/** Packages without requests or modules of Node, which the client may bring to pages. */
const PURE_PACKAGES = ['ignore', 'modern-tar']
/** A file without imports. */
const PURE_FILES = ['protocol/defaults.ts']

const ROOMS = ['people', 'hosting', 'connect', 'tracing']
/** Folders that are part of a slice: they import each other. */
const PARTS: Record<string, string[]> = {
  'hosting/deployments': [
    ...['jobs', 'snapshots', 'protection', 'traffic', 'rollouts', 'logs', 'request-logs', 'metrics', 'uploads'],
    ...['registry', 'custom-hosts', 'tags'],
  ],
  'hosting/pushes': ['previews', 'deploy-hooks'],
  'tracing/runs': ['ingest', 'projects', 'threads', 'feedback', 'shares', 'retention', 'store'],
}
/** Tables refer to tables of any slice, and every slice may read them. So may all see the error codes of all. */
const COMMON = /(^|[/.])tables\.ts$|^kernel\/db\/columns\.ts$|(^|\/|-)codes\.ts$/

const folderOf = (path: string) => path.split('/')[0]!
function sliceOf(path: string): string {
  if (COMMON.test(path)) return 'tables'
  const [room = '', folder = ''] = path.split('/')
  if (!ROOMS.includes(room)) return room
  const whole = Object.keys(PARTS).find(name => name.startsWith(`${room}/`) && PARTS[name]!.includes(folder))
  return whole ?? `${room}/${folder}`
}
const layerOf = (path: string) => LAYERS.findIndex(slices => slices.includes(sliceOf(path)))
/** Matches imports at the start of a line, and those that load a module when it is needed. */
const IMPORT = /^(?:import|export)\s[^'"]*?from '([^']+)'|(?<![\w.])import\(\s*'([^']+)',?\s*\)/gms
const imports = files.flatMap(file =>
  [...readFileSync(join(src, file), 'utf8').matchAll(IMPORT)].map(([, early, late]) => {
    const from = (early ?? late)!
    const to = from.startsWith('.') ? relative(src, join(src, dirname(file), from)) : from
    return { file, from, to, isLate: early === undefined }
  }),
)
const internalImports = imports.filter(({ from, to }) => from.startsWith('.') && !to.startsWith('..'))
const importsTypesOnly = (file: string, from: string) =>
  new RegExp(`^import type [^'"]*?from '${from}'`, 'ms').test(readFileSync(join(src, file), 'utf8'))
const importsBy = (of: string) => internalImports.filter(({ file }) => file === of).map(({ to }) => to)
const importersOf = (name: RegExp) => [
  ...new Set(imports.filter(({ from }) => name.test(from)).map(({ file }) => file)),
]

describe('the slices of src', () => {
  it('are all assigned to a layer', () => {
    expect(files.length).toBeGreaterThan(500)
    for (const file of files) expect([...LAYERS.flat(), ...PROGRAMS, APART], file).toContain(sliceOf(file))
  })

  it('import only lower layers', () => {
    expect(internalImports.length).toBeGreaterThan(2000)
    for (const { file, to } of internalImports) {
      if (sliceOf(file) === sliceOf(to) || PROGRAMS.includes(sliceOf(file))) continue
      expect(layerOf(to), `${file} imports ${to}`).toBeLessThan(layerOf(file))
    }
  })

  it('that are separate programs import only what they may share with the control plane', () => {
    const shared = internalImports.filter(
      ({ file, to }) => PROGRAMS.includes(folderOf(file)) && folderOf(to) !== folderOf(file),
    )
    expect(new Set(shared.map(({ file }) => folderOf(file)))).toEqual(new Set(PROGRAMS))
    for (const { file, to } of shared) expect(to, file).toMatch(SHARED[folderOf(file)]!)
  })

  it('have a server of graphs that imports nothing of the rest, and that nothing of the rest imports', () => {
    const isApart = (path: string) => folderOf(path) === APART
    const own = imports.filter(({ file }) => isApart(file))
    expect(own.length).toBeGreaterThan(100)
    const crossing = imports.filter(({ file, from, to }) => from.startsWith('.') && isApart(file) !== isApart(to))
    expect(crossing.map(({ file, to }) => `${file} imports ${to}`)).toEqual([])
  })

  it('have a client that brings nothing of the control plane along: it imports the types of the API only', () => {
    for (const { file, from } of imports.filter(
      ({ file, from, to }) =>
        folderOf(file) === 'client' &&
        folderOf(to) !== 'client' &&
        !PURE_PACKAGES.includes(from) &&
        !PURE_FILES.includes(to),
    ))
      expect([file, from, importsTypesOnly(file, from)]).toEqual(['client/client.ts', '../app.ts', true])
    expect(importersOf(/\/client\/\w+\.ts$/).filter(file => !/^(client|cli)\//.test(file))).toEqual([])
  })

  it('have schemas that import only zod and other schemas', () => {
    const ofSchemas = imports.filter(({ file }) => /[./]schema\.ts$/.test(file))
    expect(ofSchemas.length).toBeGreaterThan(100)
    for (const { file, from, to } of ofSchemas) {
      expect(
        from === 'zod' || /[./]schema\.ts$|^protocol\/|^kernel\/permissions\.ts$/.test(to),
        `${file} imports ${from}`,
      ).toBe(true)
    }
  })

  it('have routes that only the app imports', () => {
    const routes = files.filter(file => /[./]routes\.ts$/.test(file) && file !== 'kernel/http/routes.ts')
    expect(routes.length).toBeGreaterThan(40)
    const importers = internalImports.filter(({ to }) => routes.includes(to))
    expect(importers.filter(({ file }) => file !== 'app.ts')).toEqual([])
    expect(routes.filter(file => !importers.some(({ to }) => to === file))).toEqual([])
  })
})

describe('imports', () => {
  it('name their module, so that these rules see it, except for an optional package', () => {
    const imported = files.filter(file => /(?<![\w.])import\((?!\s*')/.test(readFileSync(join(src, file), 'utf8')))
    // The server of graphs is beside the copy of its launcher.
    expect(imported).toEqual(['agent/builds/graph-launcher.ts', 'postgres/data-folder.ts'])
  })

  it('bring neither Drizzle nor a driver along with the app: a probe needs no database', () => {
    const loaded = new Set(['app.ts'])
    for (const loading of loaded)
      for (const { file, from, to, isLate } of imports)
        if (file === loading && !isLate && !importsTypesOnly(file, from)) loaded.add(to)
    expect(loaded.size).toBeGreaterThan(25)
    const packages = [...loaded].filter(name => !/\.(ts|json)$/.test(name))
    expect(packages.sort()).toEqual(['hono/hono-base', 'hono/router', 'hono/utils/url'])
  })

  it('have no cycles, not even of types, but for the command that completes all others', () => {
    const importsOf = new Map(files.map(file => [file, importsBy(file)]))
    expect(findCycles(importsOf)).toEqual(['cli/commands.ts, cli/commands/complete.ts, cli/program.ts'])
  })

  it('never run both ways between two folders of the agent', () => {
    const roomOf = (path: string) => path.split('/')[1]!
    const pairs = internalImports
      .filter(({ file, to }) => folderOf(file) === 'agent' && folderOf(to) === 'agent' && roomOf(file) !== roomOf(to))
      .map(({ file, to }) => [roomOf(file), roomOf(to)] as const)
    const oneWay = new Set(pairs.map(pair => pair.join(' imports ')))
    expect(oneWay.size).toBeGreaterThan(10)
    const mutual = pairs.filter(([from, to]) => oneWay.has(`${to} imports ${from}`))
    expect([...new Set(mutual.map(pair => [...pair].sort().join(', ')))]).toEqual([])
  })

  it('are reported if they form a direct or an indirect cycle', () => {
    const cyclic = { a: ['b'], b: ['c'], c: ['a', 'd'], d: ['e'], e: ['d'], f: ['a'], g: [] }
    expect(findCycles(new Map(Object.entries(cyclic))).sort()).toEqual(['a, b, c', 'd, e'])
  })
})

/** Groups of files that reach each other (strongly connected components, by Tarjan), each as one line. */
function findCycles(importsOf: Map<string, string[]>): string[] {
  const order = new Map<string, number>()
  const stack: string[] = []
  const cycles: string[] = []
  const visit = (file: string): number => {
    const index = order.size
    order.set(file, index)
    stack.push(file)
    let lowest = index
    for (const imported of importsOf.get(file) ?? []) {
      if (!order.has(imported)) lowest = Math.min(lowest, visit(imported))
      else if (stack.includes(imported)) lowest = Math.min(lowest, order.get(imported)!)
    }
    if (lowest < index) return lowest
    const group = stack.splice(stack.indexOf(file))
    if (group.length > 1) cycles.push(group.sort().join(', '))
    return lowest
  }
  for (const file of importsOf.keys()) if (!order.has(file)) visit(file)
  return cycles
}

describe('the boundaries between files', () => {
  it.each([
    ['the database driver', /^@neondatabase\//, [/^kernel\/db\/neon\.ts$/]],
    [
      'hono',
      /^hono/,
      [
        /^app\.ts$/,
        /^kernel\/http\/(caller|execution|input|middleware|mount-on-demand|mount-operations|path-aliases)\.ts$/,
        /^kernel\/http\/(raw-body|routes|segment-router|serve-routes|session-cookie)\.ts$/,
        /^kernel\/(limits\/caller-limits|pages\/static-page)\.ts$/,
        /^(api-docs|dashboard|people\/sign-in|monitoring|graphs\/http)\/|^people\/authorization-server\/consent-page\.ts$/,
        /^connect\/channels\/(confirmation|link-pages|senders\/email)\.ts$/,
      ],
    ],
    // architecture/built-ins.test.ts is about modules of Node itself.
    ['a package for Node', /^pg$|^@hono\/node-server$/, [/^(host|agent|cli|postgres|graphs)\//]],
  ])('%s is imported only by its owners', (_, name, owners) => {
    const importers = importersOf(name)
    expect(importers.filter(file => !owners.some(owner => owner.test(file)))).toEqual([])
    expect(owners.filter(owner => !importers.some(file => owner.test(file)))).toEqual([])
  })

  it('drizzle is imported by services, not by routes, schemas or pages', () => {
    const importers = importersOf(/^drizzle-orm/)
    expect(importers.length).toBeGreaterThan(50)
    for (const file of importers) expect(file).not.toMatch(/routes\.ts$|schema\.ts$|^api-docs|^app\.ts$/)
  })

  it('only origin.ts decides between PUBLIC_URL and a Host header', () => {
    const deciders = files.filter(file =>
      /req\.url\)\.origin|publicUrl \?\?|publicUrl \|\|/.test(readFileSync(join(src, file), 'utf8')),
    )
    expect(deciders).toEqual(['kernel/http/origin.ts'])
  })

  it('only hosts read the environment, and env.ts parses it', () => {
    const hosts = ['host', 'postgres', 'cli']
    // They are separate programs: the agent, the server of a site's image, that of graphs, and its launcher.
    const programs = ['agent/main.ts', 'agent/site/site-main.ts', 'graphs/main.ts', 'agent/builds/graph-launcher.ts']
    // The code examples of the API pages contain it as text.
    const examples = /^api-docs\/client/
    for (const file of files.filter(
      file => !hosts.includes(folderOf(file)) && !programs.includes(file) && !examples.test(file),
    )) {
      expect(readFileSync(join(src, file), 'utf8'), file).not.toContain('process.env')
    }
  })

  it('only the file of a runtime in host/ names that runtime', () => {
    const runtimeFiles = ['workers', 'node', 'deno', 'bun'].map(name => `host/${name}.ts`)
    const objects = /\b(Deno|Bun|FixedLengthStream)(\.|\?\.|\[| \})|\btypeof (Deno|Bun)\b|['"](Deno|Bun)['"]/
    const marks = /\bprocess\.(versions|release|isBun)\b|\bnavigator\.userAgent\b|cloudflare:/
    for (const file of files.filter(file => !runtimeFiles.includes(file) && !PROGRAMS.includes(folderOf(file)))) {
      const text = readFileSync(join(src, file), 'utf8')
      for (const names of [objects, marks]) expect(text, file).not.toMatch(names)
    }
  })

  it('only guarded-fetch.ts fetches addresses that users chose, and every library fetches through it', () => {
    // The operator chooses the database and the S3 store. A page's script fetches from the app that served it, and
    // the client and the command line run on the machine of their user. The server of graphs is an application's own.
    const owners = [
      /^kernel\/(http\/guarded-fetch|db\/(gateway|neon|s3|streamed-fetch))\.ts$/,
      /^(host|agent|client|cli|graphs)\/|^api-docs\/client|page-script\.ts$/,
    ]
    // Calls, not declarations. `env.ts` binds the platform's fetch for the guard.
    const fetchCalls =
      /(?<![\w.])fetch\((?!\w+:)|\bglobalThis\.fetch\b(?!\.bind\()|\.foreignFetch\(|\bnew (?:WebSocket|EventSource)\b/
    for (const file of files.filter(file => !owners.some(pattern => pattern.test(file)))) {
      const text = readFileSync(join(src, file), 'utf8')
      expect(text, file).not.toMatch(fetchCalls)
      const sendsRequests = /^import (?!type).* from 'oauth4webapi'/m.test(text) && /Request\(/.test(text)
      if (sendsRequests) expect(text, file).toContain('customFetch')
    }
  })

  it('the agent reports unexpected errors through describeError(), which removes paths', () => {
    // The messages of JSON.parse contain no paths.
    for (const file of files.filter(file => folderOf(file) === 'agent' && !file.endsWith('read-json.ts')))
      expect(readFileSync(join(src, file), 'utf8'), file).not.toContain('as Error).message')
  })

  it('zod is imported in a way that keeps its locales out of the bundle', () => {
    for (const file of files)
      expect(readFileSync(join(src, file), 'utf8'), file).not.toMatch(/import \{[^}]*\bz\b[^}]*\} from 'zod'/)
  })

  it('hono is imported in a way that keeps its unused routers out of the bundle', () => {
    for (const file of files.filter(file => folderOf(file) !== APART))
      expect(readFileSync(join(src, file), 'utf8'), file).not.toMatch(/^import (?!type\b).* from 'hono'/m)
  })

  it('every file begins with a comment that says what it owns', () => {
    for (const file of files) expect(readFileSync(join(src, file), 'utf8'), file).toMatch(/^(#!.*\n)?\/\/ \S/)
  })
})

describe('the dashboard', () => {
  const folder = join(src, 'dashboard')
  const sources = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter(
    path => /\.tsx?$/.test(path) && !/^served\/|^vite\.config\.ts$/.test(path),
  )
  const texts = sources.map(file => [file, readFileSync(join(folder, file), 'utf8')] as const)

  it('calls the API only through its client, which brings nothing of the control plane along', () => {
    expect(texts.length).toBeGreaterThan(100)
    // The second one uploads archives: fetch() does not say how far an upload is.
    const callers = ['api/client.ts', 'api/upload.ts']
    for (const [file, text] of texts) {
      if (!callers.includes(file)) expect(text, file).not.toMatch(/\bfetch\(|EventSource|XMLHttpRequest|sendBeacon/)
      for (const [, from] of text.matchAll(/from '(\.[^']+)'/g)) {
        const to = relative(folder, join(folder, dirname(file), from!))
        const isShared =
          /^\.\.\/(?:client|build-plan)\/|^\.\.\/protocol\/(?:reserved-variables|env-file|tunnel-(?:frames|link))\.ts$/
        if (to.startsWith('..')) expect(to, file).toMatch(isShared)
      }
    }
  })

  it('has nothing inline, which its policy would refuse', () => {
    for (const [file, text] of texts) expect(text, file).not.toMatch(/innerHTML|outerHTML|insertAdjacentHTML|\sstyle=/)
  })

  it('has rooms that import only those before them', () => {
    const rooms = ['format', 'api', 'live', 'parts', 'router', 'commands', 'screens', 'layout', 'app.tsx', 'main.tsx']
    for (const [file, text] of texts.filter(([file]) => file !== 'theme.ts')) {
      const room = rooms.indexOf(folderOf(file))
      expect(room, file).not.toBe(-1)
      for (const [, from] of text.matchAll(/(?:from|import\() ?'(\.[^']+\.tsx?)'/g)) {
        const to = relative(folder, join(folder, dirname(file), from!))
        if (!to.startsWith('..')) expect(rooms.indexOf(folderOf(to)), `${file} imports ${to}`).toBeLessThanOrEqual(room)
      }
    }
  })

  it('has no cycles of imports, also of those that load a screen later', () => {
    const importsOf = texts.map(([file, text]) => {
      const names = [...text.matchAll(/(?:from |import\()'(\.[^']+)'/g)].map(([, from]) => from!)
      return [file, names.map(from => relative(folder, join(folder, dirname(file), from)))] as const
    })
    expect(findCycles(new Map(importsOf.map(([file, names]) => [file, [...names]])))).toEqual([])
  })

  it('begins every file with a comment that says what it owns', () => {
    for (const [file, text] of texts) expect(text, file).toMatch(/^\/\/ \S/)
  })

  it('names colors in its tokens only', () => {
    const styles = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter(path => path.endsWith('.css'))
    expect(styles.length).toBeGreaterThan(10)
    for (const file of styles.filter(file => !file.endsWith('tokens.css')))
      expect(readFileSync(join(folder, file), 'utf8'), file).not.toMatch(/#[0-9a-f]{3,8}\b|rgba?\(|hsla?\(|oklch\(/)
  })
})

describe('the migrations', () => {
  it('are named, numbered without gaps, and listed in the order of their time', () => {
    const { entries } = JSON.parse(readFileSync(join(root, 'drizzle/meta/_journal.json'), 'utf8')) as {
      entries: { idx: number; when: number; tag: string }[]
    }
    const sql = readdirSync(join(root, 'drizzle'))
      .filter(name => /^\d.*\.sql$/.test(name))
      .sort()
    expect(entries.map(entry => `${entry.tag}.sql`)).toEqual(sql)
    expect(entries.map(entry => entry.idx)).toEqual(entries.map((_, i) => i))
    expect(entries.map(entry => entry.when)).toEqual(entries.map(entry => entry.when).sort((a, b) => a - b))
  })
})

describe('the threat model', () => {
  it('names tests that exist', () => {
    const named = [...readFileSync(join(root, 'SECURITY.md'), 'utf8').matchAll(/`([\w/-]+\.test\.ts)`/g)]
    expect(named.length).toBeGreaterThan(40)
    expect(named.map(([, path]) => path!).filter(path => !existsSync(join(root, 'test', path)))).toEqual([])
  })
})

describe('the lock file', () => {
  type Entry = {
    link?: boolean
    inBundle?: boolean
    integrity?: string
    resolved?: string
    version: string
    optional?: boolean
  }
  const { packages } = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8')) as {
    packages: Record<string, Entry>
  }
  const downloaded = Object.entries(packages).filter(([path, entry]) => path !== '' && !entry.link && !entry.inBundle)
  /**
   * Builds of workerd for other systems, missing in the registry that created the lock file. They are optional, so npm
   * leaves them out on Linux. `npm install` on a Mac adds the digests; then remove the line.
   */
  const WITHOUT_DIGEST = ['darwin-64', 'darwin-arm64', 'windows-64'].map(
    system => `node_modules/@cloudflare/workerd-${system}`,
  )

  it('has a digest for every package', () => {
    const without = downloaded.filter(([, { integrity }]) => !/^sha512-[A-Za-z0-9+/]{86}==$/.test(integrity ?? ''))
    expect(without.map(([path]) => path).sort()).toEqual([...WITHOUT_DIGEST].sort())
    for (const [path, entry] of without) expect([path, entry.optional]).toEqual([path, true])
  })

  it('names no registry', () => {
    expect(downloaded.filter(([, { resolved }]) => resolved !== undefined).map(([path]) => path)).toEqual([])
  })
})
