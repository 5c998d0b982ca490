// A database, and the settings and the first key that the commands of docs/operate/self-host.md make for it.
import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseEnv, promisify } from 'node:util'
import { startPostgres } from '../../../../src/host/embedded-postgres.ts'
import { startS3 } from '../../../support/s3.ts'

export const ROOT = join(import.meta.dirname, '../../../..')

export type Settings = Record<string, string>
export type Installation = { settings: Settings; key: string; countUploads: () => number }

export const readPage = (name: string): string => readFileSync(join(ROOT, `docs/${name}.md`), 'utf8')

/** The installation lasts until the cleanup. Its uploads are in an S3 store. */
export async function prepareInstallation(cleanup: AsyncDisposableStack, folder: string): Promise<Installation> {
  const postgres = await startPostgres({ dataDir: join(folder, 'postgres'), durable: false })
  cleanup.defer(() => postgres.stop())
  const s3 = await startS3(join(folder, 's3'))
  cleanup.defer(async () => void (await s3.close()))

  const file = join(folder, 'slipway.env')
  const [, commands] = /```sh\n(.*?)```/s.exec(readPage('operate/self-host'))!
  const script = commands!
    .split('\n')
    .filter(line => !/^npm (ci|start|run build:dashboard)$/.test(line))
    .join('\n')
    .replace(/^(export DATABASE_OWNER_URL=).*/m, `$1${postgres.url}`)
    .replaceAll('./slipway.env', file)
    .replaceAll('>slipway.env', `>${file}`)
    .replaceAll('npm run bootstrap', 'npm run --silent bootstrap')
  const env = { PATH: `${join(ROOT, 'node_modules/.bin')}:${process.env.PATH}`, HOME: folder }
  const { stdout } = await promisify(execFile)('bash', ['-ec', script], { cwd: ROOT, env })
  const key = /slw_\w+/.exec(stdout)?.[0]
  if (!key) throw new Error(`The commands of docs/operate/self-host.md printed no key: ${stdout}`)
  return {
    settings: { ...(parseEnv(readFileSync(file, 'utf8')) as Settings), ...s3.settings },
    key,
    countUploads: () => s3.requests.filter(request => /^(PUT|POST)/.test(request)).length,
  }
}
