// Makes the folder of the GitHub Action, with the command line in it: `npm run action:package`. A job then
// downloads nothing else, and the version of the Action is that of the command line.
import { execFileSync } from 'node:child_process'
import * as fs from 'node:fs'
import { join, relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { buildSync } from 'esbuild'

const HERE = import.meta.dirname
const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const folder = resolve(process.argv[2] ?? join(ROOT, 'dist/github-action'))
fs.mkdirSync(folder, { recursive: true })

const cli = fs.mkdtempSync(join(folder, '.cli-'))
execFileSync(process.execPath, [join(ROOT, 'scripts/cli-package.ts'), cli], { stdio: ['ignore', 'ignore', 'inherit'] })
fs.renameSync(join(cli, 'slipway.mjs'), join(folder, 'slipway.mjs'))
fs.rmSync(cli, { recursive: true })
buildSync({
  entryPoints: [join(HERE, 'main.ts')],
  bundle: true,
  platform: 'node',
  format: 'esm',
  target: 'node20.12',
  outfile: join(folder, 'main.mjs'),
})
fs.copyFileSync(join(HERE, 'action.yml'), join(folder, 'action.yml'))
console.log(
  `Copy ${relative('', folder) || '.'} into a repository, or push it as one. See docs/deploy/github-action.md.`,
)
