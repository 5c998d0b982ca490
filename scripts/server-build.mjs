// Bundles the server of `npm start` into dist/server. npm runs it after each installation of the project, as `prepare`.
// It is JavaScript, because the Node of an installation without development dependencies may be too old for TypeScript.
import { createHash } from 'node:crypto'
import * as fs from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const FOLDER = join(ROOT, 'dist/server')
/** pg and others are CommonJS, and call `require` for modules of Node. */
const REQUIRE = `import { createRequire as forBundle } from 'node:module'; const require = forBundle(import.meta.url)`

/** src/host/start-node.mjs runs the bundle for as long as no file that it was made of is newer. */
async function buildServer() {
  const startedAt = new Date()
  const packages = fs.readFileSync(join(ROOT, 'package-lock.json'))
  const { build } = await import('esbuild')
  const { outputFiles, metafile } = await build({
    absWorkingDir: ROOT,
    entryPoints: ['src/host/node.ts'],
    outfile: 'dist/server/node.mjs',
    bundle: true,
    platform: 'node',
    format: 'esm',
    target: 'node22.19',
    external: ['pg-native'],
    define: { 'import.meta.main': 'false' },
    banner: { js: REQUIRE },
    // Stacks name functions, and the map has the rest.
    minifyWhitespace: true,
    minifySyntax: true,
    sourcemap: 'external',
    sourcesContent: false,
    metafile: true,
    write: false,
  })
  const sources = Object.keys(metafile.inputs).filter(path => !path.startsWith('node_modules/'))
  const lock = createHash('sha256').update(packages).digest('hex')
  fs.mkdirSync(FOLDER, { recursive: true })
  for (const { path, contents } of outputFiles) writeFile(path, contents)
  writeFile(join(FOLDER, 'inputs.json'), JSON.stringify({ sources, lock }))

  /** Renamed into place, because a server may be about to load it. A source may change while this runs. */
  function writeFile(path, content) {
    const temporary = `${path}.${process.pid}`
    fs.writeFileSync(temporary, content)
    fs.utimesSync(temporary, startedAt, startedAt)
    fs.renameSync(temporary, path)
  }
}

await buildServer().catch(({ message }) => {
  console.error(`The server is not bundled. It starts from its sources, which takes longer. ${message}`)
  // An installation without development dependencies has no bundler.
  process.exitCode = process.argv.includes('--if-possible') ? 0 : 1
})
