// Terminals of the container engine with a real Podman: its exec carries bytes, sizes, signals and codes.
import { randomUUID } from 'node:crypto'
import { text } from 'node:stream/consumers'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import { stopCommands } from '../support/commands.ts'
import { SERVE_COMMAND, setUpContainerEngines } from '../support/container-engine.ts'
import { type Podman, startPodman } from '../support/podman.ts'

let podman: Podman
const pods = setUpContainerEngines(() => podman)
beforeAll(async () => {
  podman = await startPodman()
})
afterAll(() => podman.stop())
beforeEach(() => pods.begin())
afterEach(async () => {
  await stopCommands()
  await pods.end()
})

const SIZE = { columns: 91, rows: 31 }

test('a command runs in the container, with pipes or a terminal, and ends with its close', async () => {
  const { engine } = await pods.open()
  const ref = { deployment_id: randomUUID(), revision_id: randomUUID() }
  const unit = pods.unit(ref, {}, { secrets: { TOKEN: 'hush' } })
  await engine.start(unit, pods.artifact(SERVE_COMMAND))
  await pods.waitForPhase(engine, unit, 'healthy')

  const command = ['sh', '-c', 'cat; echo $TOKEN; echo no >&2; exit 7']
  const pipes = await engine.openTerminal(ref, randomUUID(), { command, tty: false, ...SIZE })
  pipes.input.end('typed\n')
  expect(await Promise.all([text(pipes.output), text(pipes.errors!), pipes.exit])).toEqual([
    'typed\nhush\n',
    'no\n',
    { code: 7, signal: null },
  ])

  const terminal = await engine.openTerminal(ref, randomUUID(), { command: ['sh'], tty: true, ...SIZE })
  let shown = ''
  terminal.output.on('data', data => {
    shown += data
  })
  await expect
    .poll(() => {
      terminal.input.write('stty size\n')
      return shown
    })
    .toContain('31 91')
  terminal.resize({ columns: 77, rows: 17 })
  await expect
    .poll(() => {
      terminal.input.write('stty size\n')
      return shown
    })
    .toContain('17 77')
  terminal.input.write('exit 5\n')
  expect(await terminal.exit).toEqual({ code: 5, signal: null })

  const stubborn = ['sh', '-c', 'trap "" HUP; echo begun; sleep 61 & wait']
  const long = await engine.openTerminal(ref, randomUUID(), { command: stubborn, tty: false, ...SIZE })
  await new Promise(resolve => long.output.once('data', resolve))
  const countSleeping = async () => {
    const count = ['sh', '-c', 'cat /proc/[0-9]*/cmdline 2>/dev/null | tr "\\0" " " | grep -c "[s]leep 61" || true']
    const counter = await engine.openTerminal(ref, randomUUID(), { command: count, tty: false, ...SIZE })
    counter.input.end()
    return (await text(counter.output)).trim()
  }
  await long.close()
  await expect.poll(countSleeping).toBe('0')

  const { connect } = await engine.openForward(ref, {})
  const socket = await connect()
  socket.end('GET / HTTP/1.0\r\n\r\n')
  expect(await text(socket)).toContain('HTTP/1.')
  await expect(engine.openForward(ref, { port: 1 })).rejects.toThrow('PORT')
})
