// The house's rules: imports run one way, and each thing has its owners.
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { describe, expect, it } from 'vitest'
import { codes } from '../src/kernel/codes.ts'

const root = join(import.meta.dirname, '..')
const src = join(root, 'src')

/** Rooms from the ground up; rooms of one floor do not know each other. */
const FLOORS = [
  ['protocol'],
  ['env.ts', 'tables', 'postgres'],
  ['kernel'],
  ['access'],
  ['integrations', 'oauth', 'listeners'],
  ['deployments'],
  ['sync', 'pushes', 'events'],
  ['api-docs'],
  ['app.ts'],
  ['worker.ts', 'host'],
]
/** Programs of their own: of the rest they see only what crosses the wire, and what hosts Postgres as they do. */
const OUTSIDERS = ['agent', 'cli']

const files = readdirSync(src, { recursive: true, encoding: 'utf8' }).filter(path => path.endsWith('.ts'))
const room = (path: string) => path.split('/')[0]!
const floor = (path: string) => FLOORS.findIndex(rooms => rooms.includes(room(path)))
const imports = files.flatMap(file =>
  [...readFileSync(join(src, file), 'utf8').matchAll(/^(?:import|export)\s+(type\s)?[^'"]*?from '([^']+)'/gms)].map(
    ([, type, from]) => ({
      file,
      type: Boolean(type),
      from: from!,
      to: from!.startsWith('.') ? relative(src, join(src, dirname(file), from!)) : from!,
    }),
  ),
)
const inside = imports.filter(({ from, to }) => from.startsWith('.') && !to.startsWith('..'))
const importersOf = (name: RegExp) => [
  ...new Set(imports.filter(({ from }) => name.test(from)).map(({ file }) => file)),
]

describe('the house', () => {
  it('has only rooms that are drawn', () => {
    for (const file of files) expect([...FLOORS.flat(), ...OUTSIDERS], file).toContain(room(file))
  })

  it('is imported from the ground up', () => {
    for (const { file, to, type } of inside) {
      if (room(file) === room(to) || OUTSIDERS.includes(room(file))) continue
      // Types of the settings are everyone's; they are gone when it runs.
      if (type && floor(to) < floor(file)) continue
      expect(floor(to), `${file} imports ${to}`).toBeLessThan(floor(file))
    }
  })

  it('shows outsiders the protocol only, and what hosts Postgres', () => {
    for (const { file, to } of inside.filter(
      ({ file, to }) => OUTSIDERS.includes(room(file)) && room(to) !== room(file),
    )) {
      expect(to, file).toMatch(/^(protocol|postgres)\//)
    }
  })

  it('keeps schemas free of everything but zod', () => {
    for (const { file, from, to } of imports.filter(({ file }) => /[./]schema\.ts$/.test(file))) {
      expect(
        from === 'zod' || /[./]schema\.ts$|^protocol\/|^kernel\/permissions\.ts$/.test(to),
        `${file} imports ${from}`,
      ).toBe(true)
    }
  })

  it('keeps a slice’s routes to the app', () => {
    for (const { file } of inside.filter(({ to }) => /\/routes\.ts$/.test(to) && room(to) !== 'kernel'))
      expect(file).toBe('app.ts')
  })
})

/**
 * Cycles that are left from before this rule. Remove the line of a cycle that is gone: each listed one has to exist.
 */
const KNOWN_CYCLES = [
  'integrations/gitea.ts, integrations/githost.ts, integrations/github.ts, integrations/rest-client.ts',
]

describe('imports', () => {
  it('have no cycles at run time', () => {
    const importsOf = new Map(files.map(file => [file, runTimeImportsOf(file)]))
    expect(findCycles(importsOf).sort()).toEqual(KNOWN_CYCLES)
  })

  it('in a cycle are found, direct and indirect', () => {
    const cyclic = { a: ['b'], b: ['c'], c: ['a', 'd'], d: ['e'], e: ['d'], f: ['a'], g: [] }
    expect(findCycles(new Map(Object.entries(cyclic))).sort()).toEqual(['a, b, c', 'd, e'])
  })
})

/** Imports of types alone are gone when the code runs. */
function runTimeImportsOf(file: string): string[] {
  const text = readFileSync(join(src, file), 'utf8')
  const statements = text.matchAll(/^(?:import|export)\s+(?:(?!type\s)([^'";]*?)\s+from\s+)?'(\.[^']+)'/gm)
  return [...statements]
    .filter(([, names]) => names === undefined || !/^\{(\s*type\s+[^,}]+,?)+\s*\}$/.test(names))
    .map(([, , from]) => relative(src, join(src, dirname(file), from!)))
}

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

describe('each thing has its owners', () => {
  it.each([
    ['the driver', /^@neondatabase\//, [/^kernel\/db\.ts$/]],
    [
      'hono',
      /^hono/,
      [
        /^app\.ts$/,
        /^kernel\/(caller|input|middleware|routes|segment-router|serve-routes|static-page|wait-until)\.ts$/,
        /^api-docs\//,
      ],
    ],
    [
      'node',
      /^node:|^pg$|^@hono\/node-server$/,
      [/^host\//, /^agent\//, /^cli\//, /^postgres\//, /^kernel\/(digest|txt-records)\.ts$/],
    ],
  ])('%s', (_, name, owners) => {
    for (const file of importersOf(name))
      expect(
        owners.some(owner => owner.test(file)),
        file,
      ).toBe(true)
  })

  it('drizzle belongs to services, not to routes, schemas or pages', () => {
    for (const file of importersOf(/^drizzle-orm/))
      expect(file).not.toMatch(/routes\.ts$|schema\.ts$|^api-docs|^app\.ts$|^worker\.ts$/)
  })

  it('where this installation is: only origin.ts decides between PUBLIC_URL and a Host header', () => {
    const deciding = files.filter(file =>
      /req\.url\)\.origin|publicUrl \?\?|publicUrl \|\|/.test(readFileSync(join(src, file), 'utf8')),
    )
    expect(deciding).toEqual(['kernel/origin.ts'])
  })

  it('the environment is read by hosts, and understood by env.ts', () => {
    // The agent is a program of its own, and its main.ts what hosts it.
    const hosts = ['host', 'postgres']
    for (const file of files.filter(file => !hosts.includes(room(file)) && file !== 'agent/main.ts')) {
      expect(readFileSync(join(src, file), 'utf8'), file).not.toContain('process.env')
    }
  })

  it('the way out: only the guard fetches what others name, and every library fetches through it', () => {
    // The database and the S3 store are the operator's to name; a page's own script asks the app that served it.
    const owners = /^kernel\/(guarded-fetch|db|s3)\.ts$|^(host|agent|cli)\/|^api-docs\/client-script\.ts$/
    // Called, not declared; `env.ts` binds the platform's own, and only the guard takes it from there.
    const ways =
      /(?<![\w.])fetch\((?!\w+:)|\bglobalThis\.fetch\b(?!\.bind\()|\.outside\(|\bnew (?:WebSocket|EventSource)\b/
    for (const file of files.filter(file => !owners.test(file))) {
      const text = readFileSync(join(src, file), 'utf8')
      expect(text, file).not.toMatch(ways)
      const asks = /^import (?!type).* from 'oauth4webapi'/m.test(text) && /Request\(/.test(text)
      if (asks) expect(text, file).toContain('customFetch')
    }
  })

  it('an error that nobody foresaw leaves an agent by describeError(), which leaves out the paths that it carries', () => {
    // What JSON.parse says is about the text.
    for (const file of files.filter(file => room(file) === 'agent' && !file.endsWith('read-json.ts')))
      expect(readFileSync(join(src, file), 'utf8'), file).not.toContain('as Error).message')
  })

  it('zod is imported so that its locales stay out of the bundle', () => {
    for (const file of files)
      expect(readFileSync(join(src, file), 'utf8'), file).not.toMatch(/import \{[^}]*\bz\b[^}]*\} from 'zod'/)
  })

  it('hono is imported so that the routers it does not use stay out of the bundle', () => {
    for (const file of files)
      expect(readFileSync(join(src, file), 'utf8'), file).not.toMatch(/^import (?!type\b).* from 'hono'/m)
  })

  it('a file begins by saying what it owns', () => {
    for (const file of files) expect(readFileSync(join(src, file), 'utf8'), file).toMatch(/^(#!.*\n)?\/\/ \S/)
  })
})

it('every code of an error is raised somewhere', () => {
  const read = (folder: string, names: string[]) => names.map(name => readFileSync(join(root, folder, name), 'utf8'))
  const migrations = readdirSync(join(root, 'drizzle')).filter(name => name.endsWith('.sql'))
  const sources = [
    ...read(
      'src',
      files.filter(file => file !== 'kernel/codes.ts'),
    ),
    ...read('drizzle', migrations),
  ].join()
  for (const code of codes) expect(sources.includes(`'${code}'`), code).toBe(true)
})

describe('the migrations', () => {
  it('are named, numbered without a gap, and listed in the order of their time', () => {
    const { entries } = JSON.parse(readFileSync(join(root, 'drizzle/meta/_journal.json'), 'utf8')) as {
      entries: { idx: number; when: number; tag: string }[]
    }
    const sql = readdirSync(join(root, 'drizzle'))
      .filter(name => name.endsWith('.sql'))
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
  const fetched = Object.entries(packages).filter(([path, entry]) => path !== '' && !entry.link && !entry.inBundle)
  /**
   * Builds of workerd for other systems, which the registry that made the lock file did not have. They are optional:
   * npm leaves them out on Linux. `npm install` on a Mac writes what is missing; then the line goes.
   */
  const UNKNOWN = ['darwin-64', 'darwin-arm64', 'windows-64'].map(
    system => `node_modules/@cloudflare/workerd-${system}`,
  )

  it('says what every package is by its digest', () => {
    const without = fetched.filter(([, { integrity }]) => !/^sha512-[A-Za-z0-9+/]{86}==$/.test(integrity ?? ''))
    expect(without.map(([path]) => path).sort()).toEqual([...UNKNOWN].sort())
    for (const [path, entry] of without) expect([path, entry.optional]).toEqual([path, true])
  })

  it('names no registry', () => {
    expect(fetched.filter(([, { resolved }]) => resolved !== undefined).map(([path]) => path)).toEqual([])
  })
})
