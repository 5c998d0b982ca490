// Tools that the machine does not have. A script stands in for mise, whose downloads tests cannot reach.
import * as fs from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { gatherTools } from '../../src/agent/engines/process/tools.ts'
import { makeTempFolder } from '../support/process-engine.ts'

const MISE = `#!/bin/sh
echo "$*" >> "$MISE_DATA_DIR/calls"
home="$MISE_DATA_DIR/$2"
case "$1" in
  where) test -d "$home" && echo "$home" ;;
  install) mkdir "$home" ;;
esac
`

test('a version that the machine does not have is installed by mise, once, also of a range', async () => {
  const folder = makeTempFolder()
  onTestFinished(() => fs.rmSync(folder, { recursive: true, force: true }))
  fs.writeFileSync(join(folder, 'mise'), MISE, { mode: 0o755 })
  const options = {
    shared: join(folder, 'tools'),
    areOthers: false,
    env: {},
    path: '/usr/bin:/bin',
    machinePath: folder,
  }
  const task = { log: () => {}, signal: new AbortController().signal, cache: folder, runningFolder: folder }
  const gather = (version: string) => gatherTools([{ name: 'go', version, from: 'go.mod' }], options, task)
  const home = join(folder, 'tools/mise/go@99.1')
  const found = { programs: [join(home, 'bin')], env: { GOROOT: home, CGO_ENABLED: '0' } }
  expect(await gather('>=99.1')).toEqual(found)
  expect(await gather('99.1')).toEqual(found)
  const extra = { name: 'gradle', version: '99.1', from: 'mise.toml', isExtra: true } as const
  fs.rmSync(join(folder, 'mise'))
  expect((await gatherTools([extra], options, task)).programs).not.toContain(join(folder, 'tools/mise/gradle@99.1/bin'))
  const calls = fs.readFileSync(join(folder, 'tools/mise/calls'), 'utf8').trim().split('\n')
  expect(calls.filter(call => call.startsWith('install'))).toEqual(['install go@99.1'])
})
