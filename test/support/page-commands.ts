// The commands of a page, run from top to bottom in one shell, beside the answers that the page shows.
import { execFile } from 'node:child_process'
import { mkdirSync, readFileSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'

const ROOT = join(import.meta.dirname, '../..')
const SEPARATOR = '\u241e'

export const readPage = (page: string) => readFileSync(join(ROOT, `${page}.md`), 'utf8')

/** A folder that commands of pages run in, as in a checkout with `npm run dev`. */
export function makeCheckout(folder: string, home: string): void {
  mkdirSync(folder, { recursive: true })
  for (const name of ['docs', 'src', 'scripts', 'node_modules', 'package.json'])
    symlinkSync(join(ROOT, name), join(folder, name))
  symlinkSync(home, join(folder, '.slipway'))
}

/** Commands, and the answer that the page shows, if any. */
const readBlocks = (page: string) =>
  [...readPage(page).matchAll(/```sh\n(.*?)```(?:\n```json\n(.*?)```)?/gs)]
    .map(([, commands, answer]) => ({ commands: commands!, answer }))
    .filter(({ commands }) => !/^(npm|node) /.test(commands))

const withoutSpace = (text: string) => text.replace(/\s+/g, '')
const escapeRegExp = (text: string) => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')
/** An ellipsis in the shown answer stands for any text. */
const toPattern = (answer: string) =>
  new RegExp(`^${withoutSpace(answer).split('…').map(escapeRegExp).join('.*?')}$`, 's')

/** Each command of `slipway` shows its installation on standard error. */
const INSTALLATION_LINE = /^\{"type":"installation",.*\}\n/gm

type Options = { cwd: string; env?: NodeJS.ProcessEnv; timeout?: number }
export const runShell = (script: string, { env, ...options }: Options) =>
  promisify(execFile)('bash', ['-c', script], { ...options, env: { ...process.env, ...env }, maxBuffer: 1 << 26 })

/** Runs the `sh` blocks of a page, but for those that start with npm or node. Returns how the output differs. */
export async function runPage(page: string, options: Options, replace = (text: string) => text): Promise<string[]> {
  const blocks = readBlocks(page)
  if (blocks.length === 0) return ['it has no commands']
  const script = blocks.map(({ commands }) => `${replace(commands)}\necho '${SEPARATOR}'\n`).join('')
  const { stdout, stderr } = await runShell(script, options)
  const answers = stdout.split(SEPARATOR)
  const differences = blocks.flatMap(({ commands, answer }, i) => {
    // Lines of requests have an id, too.
    const isFailed = ['"request_id"', '"code"'].every(member => answers[i]!.includes(member))
    const isRight = !answer || toPattern(replace(answer)).test(withoutSpace(answers[i]!))
    return isFailed || !isRight ? [`${commands}\nprinted\n${answers[i]}`] : []
  })
  const errors = stderr.replaceAll(INSTALLATION_LINE, '')
  return errors ? [...differences, errors] : differences
}
