// The copy of a built folder: what it has, what it refuses, and that a build cannot make the agent read other files.
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import * as fs from 'node:fs'
import { dirname, join } from 'node:path'
import * as zlib from 'node:zlib'
import { afterEach, beforeEach, describe, expect, it, test } from 'vitest'
import { PermanentError } from '../../../src/agent/engine.ts'
import { copySite } from '../../../src/agent/site/copy-site.ts'
import { contentFile, OpenSites } from '../../../src/agent/site/site-manifest.ts'
import { makeTempFolder } from '../../support/process-engine.ts'

const SECRET = 'a secret of another user'
const isRoot = process.platform === 'linux' && process.getuid?.() === 0
let home: string
let tree: string
let to: string
let logged: string[]

beforeEach(() => {
  home = fs.realpathSync(makeTempFolder())
  tree = join(home, 'tree')
  to = join(home, 'site')
  logged = []
  write('../secret.txt', SECRET)
  fs.mkdirSync(join(tree, 'dist'), { recursive: true })
})
afterEach(() => fs.rmSync(home, { recursive: true, force: true }))

function write(path: string, text: string | Buffer): void {
  const file = join(tree, path)
  fs.mkdirSync(dirname(file), { recursive: true })
  fs.writeFileSync(file, text)
}
const link = (path: string, target: string) => fs.symlinkSync(target, join(tree, path))
async function copy({
  folder = 'dist',
  fallback = null as string | null,
  files = 100,
  megabytes = 10,
  user = undefined as { uid: number; gid: number } | undefined,
} = {}) {
  const task = { log: (message: string) => void logged.push(message), signal: new AbortController().signal }
  await copySite({ tree, folder, fallback, user }, to, task, { files, megabytes })
  const site = (await new OpenSites().open(to))!
  const textOf = (path: string) => fs.readFileSync(contentFile(to, site.files.get(path)!.content), 'utf8')
  return { site, paths: [...site.files.keys()], textOf }
}
/** The message of the refusal. */
async function refusal(options: Parameters<typeof copy>[0] = {}): Promise<string> {
  const error = await copy(options).then(
    () => undefined,
    (error: unknown) => error,
  )
  expect(error).toBeInstanceOf(PermanentError)
  return (error as Error).message
}
/** No file that the agent wrote has the secret. */
function expectNoSecret(): void {
  if (!fs.existsSync(to)) return
  for (const name of fs.readdirSync(to, { recursive: true, encoding: 'utf8' })) {
    const file = join(to, name)
    if (fs.statSync(file).isFile()) expect(fs.readFileSync(file).includes(SECRET)).toBe(false)
  }
}

test('the copy has the files by their content, with types and compressed forms, for the agent alone', async () => {
  const script = 'const answer = 42;\n'.repeat(500)
  write('dist/index.html', '<h1>Hi</h1>')
  write('dist/app.js', script)
  write('dist/copy/of.js', script)
  write('dist/logo.png', 'p'.repeat(5000))
  write('dist/noise.txt', '')
  write('dist/app.js.br', 'the site’s own')
  write('dist/__proto__', 'own')
  const { site, paths, textOf } = await copy()
  expect(paths.sort()).toEqual(
    ['/__proto__', '/app.js', '/app.js.br', '/copy/of.js', '/index.html', '/logo.png', '/noise.txt'].sort(),
  )
  const { content, size, type, encoded } = site.files.get('/app.js')!
  expect([size, type]).toEqual([script.length, 'text/javascript; charset=utf-8'])
  expect(site.files.get('/copy/of.js')).toEqual(site.files.get('/app.js'))
  expect([site.files.get('/logo.png')!.encoded, site.files.get('/index.html')!.encoded]).toEqual([{}, {}])
  expect(textOf('/app.js.br')).toBe('the site’s own')
  const unpack = { br: zlib.brotliDecompressSync, gzip: zlib.gunzipSync }
  for (const encoding of ['br', 'gzip'] as const) {
    const bytes = fs.readFileSync(contentFile(to, content, encoding))
    expect([bytes.length, unpack[encoding](bytes).toString()]).toEqual([encoded[encoding], script])
  }
  for (const name of ['', 'content']) expect(fs.statSync(join(to, name)).mode & 0o777).toBe(0o700)
  for (const name of fs.readdirSync(join(to, 'content')))
    expect(fs.statSync(join(to, 'content', name)).mode & 0o077).toBe(0)
})

test('rules and hidden files are not served, and a line that is not understood is in the log', async () => {
  for (const path of ['index.html', '.env', '.git/config', 'a/.htpasswd', '.well-known/security.txt', 'sub/_headers'])
    write(`dist/${path}`, 'x')
  write('dist/_headers', '/*\n  X-A: 1\n  Content-Length: 1\n')
  write('dist/_redirects', '/a /b\nnonsense\n')
  const { site, paths } = await copy()
  expect(paths.sort()).toEqual(['/.well-known/security.txt', '/index.html', '/sub/_headers'])
  expect([site.headers.length, site.redirects.length]).toEqual([1, 1])
  expect(logged.filter(line => line.includes('Line 3 of `_headers`'))).toHaveLength(1)
  expect(logged.filter(line => line.includes('Line 2 of `_redirects`'))).toHaveLength(1)
})

test('a fallback that the build did not make is no fallback, and the log says so', async () => {
  write('dist/a.html', 'x')
  const { site } = await copy({ fallback: 'index.html' })
  expect([site.fallback, logged.some(line => line.includes('`index.html`'))]).toEqual([null, true])
})

test('the tree itself may be the site, without its packages', async () => {
  for (const path of ['index.html', 'node_modules/x/index.js', 'js/node_modules/y.js']) write(path, 'x')
  expect((await copy({ folder: '.' })).paths.sort()).toEqual(['/index.html', '/js/node_modules/y.js'])
})

test('too many files, too many megabytes and no files are refused by name', async () => {
  expect(await refusal()).toContain('`dist`')
  expect(await refusal({ folder: 'out' })).toContain('The build made no files in `out`')
  write('dist/.env', 'x')
  expect(await refusal()).toContain('The build made no files in `dist`')
  for (let i = 0; i < 11; i++) write(`dist/${i}.txt`, Buffer.alloc(100_000))
  expect(await refusal({ files: 10 })).toContain('more than 10 files')
  expect(await refusal({ megabytes: 1 })).toContain('more than 1 MB')
  fs.truncateSync(join(tree, 'dist/0.txt'), 2 ** 40)
  expect(await refusal({ megabytes: 100 })).toContain('more than 100 MB')
  write('dist/_headers', Buffer.alloc(300_000))
  fs.truncateSync(join(tree, 'dist/0.txt'), 1)
  expect(await refusal()).toContain('`_headers`')
})

describe('a link', () => {
  it('inside that leads inside is the file or the folder', async () => {
    write('dist/v2/index.html', 'two')
    link('dist/latest', 'v2')
    link('dist/home.html', './v2/index.html')
    link('dist/v2/absolute.html', join(tree, 'dist/v2/index.html'))
    const { paths, textOf } = await copy()
    expect(paths.sort()).toEqual(
      ['/home.html', '/latest/absolute.html', '/latest/index.html', '/v2/absolute.html', '/v2/index.html'].sort(),
    )
    expect(textOf('/home.html')).toBe('two')
  })

  it.each([
    ['/etc/passwd', 'x.txt'],
    ['/etc', 'etc'],
    ['/', 'root'],
    ['../../secret.txt', 'x.txt'],
    ['../package.json', 'x.txt'],
    ['/proc/self/environ', 'environ'],
    ['/proc/self/root/etc/passwd', 'x.txt'],
    ['/proc/self/cwd', 'cwd'],
    ['/dev/zero', 'zero'],
    ['nowhere', 'x.txt'],
    ['x.txt', 'x.txt'],
  ])('to %s is refused by name', async (target, name) => {
    write('package.json', '{}')
    write('dist/index.html', 'x')
    link(`dist/${name}`, target)
    expect(await refusal()).toContain(`\`${name}\` in \`dist\` is a link that leads out`)
  })

  it('to a folder above is refused, so that the walk ends', async () => {
    write('dist/a/index.html', 'x')
    link('dist/a/again', '..')
    expect(await refusal()).toMatch(/leads out|a link to a folder above/)
    fs.rmSync(join(tree, 'dist/a/again'))
    write('dist/a/b/index.html', 'x')
    link('dist/a/b/again', '../../a')
    expect(await refusal()).toContain('`a/b/again` in `dist` is a link to a folder above')
  })

  it('in place of the rules leads nowhere else either', async () => {
    write('dist/index.html', 'x')
    link('dist/_headers', '/etc/passwd')
    expect(await refusal()).toContain('`_headers` in `dist` is a link that leads out')
  })

  it.each(['/etc', '../..', '/proc/self/cwd'])('in place of the built folder, to %s, is refused', async target => {
    fs.rmdirSync(join(tree, 'dist'))
    link('dist', target)
    expect(await refusal()).toContain('leads out of the application')
  })

  it.each(['..', '../../etc', '/etc', 'dist/../..'])('is not needed for the folder %s', async folder => {
    const message = await refusal({ folder })
    expect(message).toMatch(/leads out of the application|made no files/)
  })

  it('in place of the built folder, to another one of the tree, is that folder', async () => {
    fs.rmdirSync(join(tree, 'dist'))
    write('build/out/index.html', 'x')
    link('dist', 'build/out')
    expect((await copy()).paths).toEqual(['/index.html'])
  })
})

test('a pipe that nobody writes is refused, because it is no file', async () => {
  write('dist/index.html', 'x')
  execFileSync('mkfifo', [join(tree, 'dist/pipe')])
  expect(await refusal()).toContain('`pipe` in `dist` is neither a file nor a folder')
})

test.runIf(isRoot)('a hard link to a file of another user is refused', async () => {
  const user = { uid: 23_456, gid: 23_456 }
  write('dist/index.html', 'x')
  fs.chownSync(join(tree, 'dist/index.html'), user.uid, user.gid)
  fs.linkSync(join(home, 'secret.txt'), join(tree, 'dist/x.txt'))
  expect(await refusal({ user })).toContain('`x.txt` in `dist` belongs to another user')
  expectNoSecret()
})

/** Swaps folders and files for links to those outside, and back, until it is ended. */
const SWAP = `
const fs = require('node:fs')
const [dist, outside] = process.argv.slice(1)
const attempt = work => { try { work() } catch {} }
for (let swaps = 0; ; swaps++) {
  for (const name of ['d0', 'd1', 'd2', 'd3', 'd4']) {
    const path = dist + '/' + name
    attempt(() => {
      fs.renameSync(path, dist + '/.was')
      fs.symlinkSync(outside, path)
      fs.rmSync(path)
    })
    attempt(() => fs.renameSync(dist + '/.was', path))
    attempt(() => {
      fs.rmSync(path + '/secret.txt')
      fs.symlinkSync(outside + '/secret.txt', path + '/secret.txt')
      fs.rmSync(path + '/secret.txt')
    })
    attempt(() => fs.writeFileSync(path + '/secret.txt', 'harmless', { flag: 'wx' }))
  }
  if (swaps === 20) process.stdout.write('swapping')
}
`

test('a user who swaps files and folders for links during the copy never gets another file copied', async () => {
  for (let i = 0; i < 5; i++) write(`dist/d${i}/secret.txt`, 'harmless')
  write('../outside/secret.txt', SECRET)
  const swapping = spawn(process.execPath, ['-e', SWAP, join(tree, 'dist'), join(home, 'outside')])
  const ended = once(swapping, 'exit')
  try {
    await once(swapping.stdout, 'data')
    for (let i = 0; i < 100; i++) {
      const outcome = await copy({ files: 1000 }).catch((error: Error) => error)
      if (outcome instanceof Error) expect(outcome).toBeInstanceOf(PermanentError)
      expectNoSecret()
    }
  } finally {
    swapping.kill('SIGKILL')
    await ended
  }
})

test('a build that is interrupted stops the copy', async () => {
  write('dist/index.html', 'x')
  const signal = AbortSignal.abort(new PermanentError('The build was interrupted.'))
  const copying = copySite(
    { tree, folder: 'dist', fallback: null, user: undefined },
    to,
    { log: () => {}, signal },
    { files: 9, megabytes: 9 },
  )
  await expect(copying).rejects.toThrow(PermanentError)
})
