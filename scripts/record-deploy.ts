// Records `slipway deploy` in a terminal as an animated SVG, docs/images/deploy.svg: `node scripts/record-deploy.ts`.
// It starts `npm run dev` in a folder of its own and types what a person would.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import * as fs from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { type Output, renderRecording } from './terminal-svg.ts'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const TARGET = join(ROOT, 'docs/images/deploy.svg')
const PORT = Number(process.env.PORT ?? 8787)
const READY_MS = 120_000

const root = fs.mkdtempSync(join(tmpdir(), 'slipway-recording-'))
// With root, applications run as other users, who have to reach their folders below it.
fs.chmodSync(root, 0o755)
const folder = join(root, 'hello-web')
const environment = {
  PATH: process.env.PATH ?? '',
  HOME: root,
  TERM: 'xterm-256color',
  SLIPWAY_CONFIG_HOME: join(root, 'config'),
  SLIPWAY_HOME: join(root, 'home'),
}

fs.mkdirSync(folder)
fs.writeFileSync(join(folder, 'package.json'), '{"name": "hello-web", "scripts": {"start": "node server.js"}}')
fs.writeFileSync(
  join(folder, 'server.js'),
  `require('http').createServer((_, res) => res.end('Hello from Slipway\\n')).listen(process.env.PORT)`,
)

const dev = spawn(process.execPath, [join(ROOT, 'src/host/dev.ts'), `--port=${PORT}`], {
  env: environment,
  stdio: 'inherit',
})
try {
  await waitFor(() => readPointers().some(name => name.endsWith('.json')))
  const deploy = await record(`${join(ROOT, 'scripts/slipway.mjs')} deploy`, { '[Y/n]': '\r' })
  const url = /http:\/\/[\w.:-]+/.exec(
    deploy
      .map(({ text }) => text)
      .join('')
      .split('serves at')[1] ?? '',
  )?.[0]
  if (!url) throw new Error(`The deploy failed: ${deploy.map(({ text }) => text).join('')}`)
  const curl = await record(`curl -s ${url}`)
  const svg = renderRecording([
    { command: 'slipway deploy', outputs: deploy },
    { command: `curl ${url}`, outputs: curl },
  ])
  fs.mkdirSync(join(TARGET, '..'), { recursive: true })
  fs.writeFileSync(TARGET, svg)
  console.log(`${TARGET}: ${(svg.length / 1024).toFixed(1)} KB`)
} finally {
  dev.kill('SIGINT')
  await once(dev, 'exit')
  fs.rmSync(root, { recursive: true, force: true, maxRetries: 9 })
}

/** `npm run dev` writes one when it is ready. */
function readPointers(): string[] {
  const pointers = join(root, 'config/dev')
  return fs.existsSync(pointers) ? fs.readdirSync(pointers) : []
}

/** Records the timed output of a command on a pseudo-terminal. Answers are typed when their question is shown. */
async function record(command: string, answers: Record<string, string> = {}): Promise<Output[]> {
  const child = spawn('script', ['-qec', command, '/dev/null'], { cwd: folder, env: environment })
  const began = performance.now()
  const outputs: Output[] = []
  const open = { ...answers }
  child.stdout.on('data', async chunk => {
    outputs.push({ ms: performance.now() - began, text: String(chunk) })
    for (const [question, answer] of Object.entries(open)) {
      if (!String(chunk).includes(question)) continue
      delete open[question]
      await delay(700)
      child.stdin.write(answer)
    }
  })
  const [code] = await once(child, 'close')
  if (code !== 0) throw new Error(`${command} ended with ${code}: ${outputs.map(({ text }) => text).join('')}`)
  return outputs
}

async function waitFor(condition: () => boolean): Promise<void> {
  for (const deadline = Date.now() + READY_MS; !condition(); await delay(100))
    if (Date.now() > deadline) throw new Error('npm run dev did not start in time.')
}
