// Tools that the machine does not have. Scripts stand in for mise, Go and rustup, whose downloads tests cannot reach.
import * as fs from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { gatherTools } from '../../src/agent/engines/process/tools.ts'
import type { Tool } from '../../src/build-plan/build-plan.ts'
import { makeTempFolder } from '../support/process-engine.ts'

const MISE = `#!/bin/sh
echo "$*" >> "$MISE_DATA_DIR/calls"
home="$MISE_DATA_DIR/$2"
case "$1" in
  where) test -d "$home" && echo "$home" ;;
  install) mkdir "$home" ;;
esac
`

/** Its module proxy has two releases for this platform, and one for another. */
const GO = `#!/bin/sh
platform=${process.platform}-${process.arch === 'x64' ? 'amd64' : process.arch}
case "$1 $GOTOOLCHAIN" in
  "env ") printf '%s\\n' "$(dirname "$(dirname "$0")")" go1.24.0 ;;
  "list local") echo golang.org/toolchain v0.0.1-go99.1.2.$platform v0.0.1-go99.1.10.$platform v0.0.1-go99.1.11.x-y ;;
  "env go99.1.10") echo "$GOMODCACHE/go99.1.10" ;;
esac
`
const RUSTUP = `#!/bin/sh
echo "$1" >> "$RUSTUP_HOME/calls"
case "$1" in
  which) test -d "$RUSTUP_HOME/$3" && echo "$RUSTUP_HOME/$3/bin/rustc" ;;
  toolchain) mkdir "$RUSTUP_HOME/$3" ;;
esac
`

/** A machine with these programs in the folder `bin`. */
function makeMachine(programs: Record<string, string>) {
  const folder = makeTempFolder()
  onTestFinished(() => fs.rmSync(folder, { recursive: true, force: true }))
  fs.chmodSync(folder, 0o755)
  fs.mkdirSync(join(folder, 'bin'))
  for (const [name, text] of Object.entries(programs))
    fs.writeFileSync(join(folder, 'bin', name), text, { mode: 0o755 })
  const options = { shared: join(folder, 'tools'), areOthers: false, env: {} }
  const task = { log: () => {}, signal: new AbortController().signal, cache: folder, runningFolder: folder }
  const gather = (tool: Tool, path = '/usr/bin:/bin', more = '') =>
    gatherTools([tool], { ...options, path, machinePath: `${join(folder, 'bin')}:${more}` }, task)
  return { folder, gather }
}

test('a version that the machine does not have is installed by mise, once, also of a range', async () => {
  const { folder, gather: gatherTool } = makeMachine({ mise: MISE })
  const gather = (version: string) => gatherTool({ name: 'go', version, from: 'go.mod' })
  const home = join(folder, 'tools/mise/go@99.1')
  const found = { programs: [join(home, 'bin')], env: { GOROOT: home, CGO_ENABLED: '0' }, headers: null }
  expect(await gather('>=99.1')).toEqual(found)
  expect(await gather('99.1')).toEqual(found)
  const extra = { name: 'gradle', version: '99.1', from: 'mise.toml', isExtra: true } as const
  fs.rmSync(join(folder, 'bin/mise'))
  expect((await gatherTool(extra)).programs).not.toContain(join(folder, 'tools/mise/gradle@99.1/bin'))
  const calls = fs.readFileSync(join(folder, 'tools/mise/calls'), 'utf8').trim().split('\n')
  expect(calls.filter(call => call.startsWith('install'))).toEqual(['install go@99.1'])
})

test('Go and rustup bring a version that the machine does not have', async () => {
  const { folder, gather } = makeMachine({ go: GO, rustup: RUSTUP })
  const go = join(folder, 'tools/go/go99.1.10')
  for (const version of ['99.1', '>=99.1'])
    expect(await gather({ name: 'go', version, from: 'go.mod' })).toEqual({
      programs: [join(go, 'bin')],
      env: { GOROOT: go, CGO_ENABLED: '0' },
      headers: null,
    })
  const rust = join(folder, 'tools/rust')
  for (const version of ['99.2.0', '>=99.2.0'])
    expect((await gather({ name: 'rust', version, from: 'Cargo.toml' })).programs).toEqual([join(rust, '99.2.0/bin')])
  const calls = fs.readFileSync(join(rust, 'calls'), 'utf8').trim().split('\n')
  expect(calls.filter(call => call === 'toolchain')).toHaveLength(1)
})

test('a program that the path has already brings no folder, which would hide those before it', async () => {
  const { folder, gather } = makeMachine({ gradle: '#!/bin/sh\necho Gradle 9.1.0\n' })
  const bin = join(folder, 'bin')
  const gradle = { name: 'gradle', version: null, from: null } as const
  expect((await gather(gradle)).programs).toEqual([bin])
  expect((await gather(gradle, bin)).programs).toEqual([])
})

test('without a version that fits, another release of the same line serves', async () => {
  const python = (version: string) => `#!/bin/sh\nprintf '%s\\n' "$(dirname "$(dirname "$0")")" ${version}\n`
  const { folder, gather } = makeMachine({ python3: python('99.2.0') })
  const older = join(folder, 'older')
  fs.mkdirSync(join(older, 'bin'), { recursive: true })
  fs.writeFileSync(join(older, 'bin/python3'), python('99.1.3'), { mode: 0o755 })
  const homeFor = async (version: string) =>
    (await gather({ name: 'python', version, from: '.python-version' }, '/bin', join(older, 'bin'))).programs
  expect(await homeFor('99.1.99')).toEqual([join(older, 'bin')])
  expect(await homeFor('99.3.0')).toEqual([join(folder, 'bin')])
})
