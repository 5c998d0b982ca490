// Looks at a repository with git's own client, and a program `ssh` that runs the command of the other side here: the
// trial git-ssh does the same with a real server.
import { execFileSync } from 'node:child_process'
import * as fs from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, it } from 'vitest'
import { parseNetworks } from '../../src/agent/builds/allowed-address.ts'
import { seeRepository } from '../../src/agent/builds/repository-looks.ts'
import { removeStaleSessions } from '../../src/agent/builds/ssh-session.ts'
import { DEFAULT_PATH } from '../../src/agent/system/search-path.ts'
import { MAX_SEEN_REFS } from '../../src/protocol/repository-looks.schema.ts'

const root = fs.mkdtempSync(join(tmpdir(), 'slipway-looks-'))
afterAll(() => fs.rmSync(root, { recursive: true, force: true }))
const bin = join(root, 'bin')
const repository = join(root, 'shop.git')
const HOST_KEY = 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAINdamAGCsQq31Uv+08lkBzoO4XLz2qYjJa8CGmj3B1Ea'
const KEYS = ['next', 'old'].map(name => ({ private_key: `key ${name}\n`, fingerprint: `SHA256:${name}` }))

/** Keeps its configuration and the modes of the files, and lets in the old key. */
fs.mkdirSync(bin)
fs.writeFileSync(
  join(bin, 'ssh'),
  `#!/bin/sh
[ "$1" = -F ] || exit 99
folder=$(dirname "$2")
cp "$2" ${root}/config
stat -c '%a %n' "$folder" "$folder"/* | sed "s#$folder#.#" > ${root}/modes
grep -q 'Checking accept-new' "$2" && echo 'repository ${HOST_KEY}' > "$folder/known_hosts"
if [ -e ${root}/stalls ]; then echo $$ > ${root}/pid; exec sleep 1000; fi
if [ -e ${root}/is-endless ]; then
  line='00530123456789012345678901234567890123456789 refs/heads/bbbbbbbbbbbbbbbbbbbbbbbbbb'
  exec yes "$line"
fi
if [ -e ${root}/is-changed ]; then echo 'Host key verification failed.' >&2; exit 255; fi
if ! grep -q 'key old' "$folder/key-0"; then echo 'git@host: Permission denied (publickey).' >&2; exit 255; fi
for command in "$@"; do :; done
exec sh -c "$command"
`,
  { mode: 0o755 },
)
const git = (...args: string[]) =>
  execFileSync('git', ['-c', 'user.name=Ada', '-c', 'user.email=ada@example.com', ...args], { encoding: 'utf8' }).trim()
git('init', '-q', '--bare', '-b', 'main', repository)
git('clone', '-q', repository, join(root, 'tree'))
const inTree = (...args: string[]) => git('-C', join(root, 'tree'), ...args)
inTree('commit', '-q', '--allow-empty', '-m', 'One')
inTree('tag', '-a', 'v1', '-m', 'One')
inTree('push', '-q', 'origin', 'HEAD:main', 'HEAD:feature/a', 'v1')
const sha = inTree('rev-parse', 'HEAD')

const url = `ssh://git@127.0.0.1:2222${repository}`
const networks = parseNetworks('127.0.0.0/8')
const around = { networks, path: `${bin}:${DEFAULT_PATH}`, signal: new AbortController().signal }
const listSessions = () => fs.readdirSync(tmpdir()).filter(name => name.startsWith(`slipway-ssh-${process.pid}-`))

it('lists branches and tags with the first key that the host accepts, and tells the key of the host', async () => {
  const seen = await seeRepository(url, { keys: KEYS, host_keys: [] }, around)
  expect(seen).toEqual({
    default_branch: 'main',
    refs: [`${sha} refs/heads/feature/a`, `${sha} refs/heads/main`, `${sha} refs/tags/v1`],
    digest: expect.stringMatching(/^[0-9a-f]{64}$/),
    key_fingerprint: 'SHA256:old',
    host_key: HOST_KEY,
  })
  expect(listSessions()).toEqual([])
})

it('connects to the checked address, with the given keys and nothing else of the machine', async () => {
  await seeRepository(url, { keys: KEYS.slice(1), host_keys: [HOST_KEY] }, around)
  const config = fs.readFileSync(join(root, 'config'), 'utf8')
  for (const line of ['HostName 127.0.0.1', 'StrictHostKeyChecking yes', 'ProxyCommand none', 'IdentityAgent none'])
    expect(config).toContain(`  ${line}\n`)
  expect(fs.readFileSync(join(root, 'modes'), 'utf8').split('\n').filter(Boolean)).toEqual(
    expect.arrayContaining(['700 .', '600 ./config', '600 ./key-0', '600 ./known_hosts']),
  )
})

it('tells which key a host shows instead of the pinned one', async () => {
  fs.writeFileSync(join(root, 'is-changed'), '')
  const seen = await seeRepository(url, { keys: KEYS, host_keys: ['ssh-ed25519 AAAA'] }, around)
  fs.rmSync(join(root, 'is-changed'))
  expect(seen).toMatchObject({ problem: { code: 'host_key_changed' }, host_key: HOST_KEY })
})

it('tells a refused key, and an address that is not allowed, before it connects', async () => {
  const refused = await seeRepository(url, { keys: KEYS.slice(0, 1), host_keys: [HOST_KEY] }, around)
  expect(refused.problem?.code).toBe('key_refused')
  const elsewhere = await seeRepository(url, { keys: KEYS, host_keys: [HOST_KEY] }, { ...around, networks: [] })
  expect(elsewhere.problem?.code).toBe('address_refused')
})

it('says when it leaves out refs of a long list', async () => {
  const long = join(root, 'long.git')
  git('clone', '-q', '--bare', repository, long)
  const lines = Array.from({ length: MAX_SEEN_REFS + 1 }, (_, i) => `${sha} refs/heads/a-${i}\n`)
  fs.writeFileSync(join(long, 'packed-refs'), `# pack-refs with: peeled fully-peeled\n${lines.join('')}`)
  const seen = await seeRepository(url.replace(repository, long), { keys: KEYS, host_keys: [HOST_KEY] }, around)
  expect([seen.refs?.length, seen.is_cut]).toEqual([MAX_SEEN_REFS, true])
})

const isLinux = process.platform === 'linux'
const isAlive = (pid: number) => fs.existsSync(`/proc/${pid}`)

it.skipIf(!isLinux)('leaves no program behind of a host that stalls', async () => {
  fs.writeFileSync(join(root, 'stalls'), '')
  const stop = new AbortController()
  const seen = seeRepository(url, { keys: KEYS, host_keys: [HOST_KEY] }, { ...around, signal: stop.signal })
  const readPid = () => Number(fs.existsSync(join(root, 'pid')) && fs.readFileSync(join(root, 'pid'), 'utf8'))
  await expect.poll(readPid).toBeGreaterThan(0)
  stop.abort()
  await seen
  fs.rmSync(join(root, 'stalls'))
  await expect.poll(() => isAlive(readPid())).toBe(false)
})

it.skipIf(!isLinux)(
  'stops at a host that lists branches without an end',
  async () => {
    fs.writeFileSync(join(root, 'is-endless'), '')
    const seen = await seeRepository(url, { keys: KEYS, host_keys: [HOST_KEY] }, around)
    fs.rmSync(join(root, 'is-endless'))
    expect(seen.problem).toMatchObject({ code: 'unreadable', message: expect.stringContaining('too many') })
  },
  60_000,
)

it('removes the keys that a killed agent with the same process id has left, and survives those of others', () => {
  const stale = fs.mkdtempSync(join(tmpdir(), `slipway-ssh-${process.pid}-`))
  fs.writeFileSync(join(stale, 'key-0'), 'secret')
  // No process has this number.
  const locked = fs.mkdtempSync(join(tmpdir(), 'slipway-ssh-999999999-'))
  fs.mkdirSync(join(locked, 'in'))
  fs.chmodSync(locked, 0)
  try {
    removeStaleSessions()
    expect(fs.existsSync(stale)).toBe(false)
  } finally {
    if (fs.existsSync(locked)) fs.chmodSync(locked, 0o700)
    fs.rmSync(locked, { recursive: true, force: true })
  }
})
