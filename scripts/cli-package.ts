// Makes the npm package of the command line: one file without dependencies, and a tarball. Run `npm run cli:package`.
import * as fs from 'node:fs'
import { join, relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { gzipSync } from 'node:zlib'
import { buildSync } from 'esbuild'
import { packTar } from 'modern-tar'
import { buildDeclarationSchema } from '../src/api-docs/declaration-schema.ts'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
/** commander is CommonJS, and calls `require` for modules of Node. */
const REQUIRE = `import{createRequire}from'node:module';const require=createRequire(import.meta.url);`

const { version, license } = JSON.parse(fs.readFileSync(join(ROOT, 'package.json'), 'utf8')) as Record<string, string>
const folder = resolve(process.argv[2] ?? join(ROOT, 'dist/cli'))
fs.mkdirSync(folder, { recursive: true })

const { outputFiles } = buildSync({
  entryPoints: [join(ROOT, 'src/cli/main.ts')],
  ...{ bundle: true, minify: true, platform: 'node', format: 'esm', target: 'node20.12', write: false },
  banner: { js: REQUIRE },
})
const manifest = {
  ...{ name: 'slipway', version, license, description: 'Deploys folders and operates deployments on Slipway.' },
  ...{
    type: 'module',
    bin: { slipway: 'slipway.mjs' },
    files: ['slipway.mjs', 'slipway.schema.json'],
    engines: { node: '>=20.12' },
  },
}
const contents = {
  'slipway.mjs': outputFiles[0]!.contents,
  // For editors, of documents that `slipway apply` takes.
  'slipway.schema.json': new TextEncoder().encode(`${JSON.stringify(buildDeclarationSchema())}\n`),
  'package.json': new TextEncoder().encode(`${JSON.stringify(manifest, null, 2)}\n`),
}
const entries = Object.entries(contents).map(([name, body]) => ({
  header: { name: `package/${name}`, size: body.length, mode: 0o755, mtime: new Date(0) },
  body,
}))
const tarball = `slipway-${version}.tgz`
for (const [name, content] of Object.entries({ [tarball]: gzipSync(await packTar(entries)), ...contents })) {
  // Renamed into place, because a command may be about to load it. npx would run a tarball that is executable.
  const temporary = join(folder, `${name}.${process.pid}`)
  fs.writeFileSync(temporary, content, { mode: name.endsWith('.mjs') ? 0o755 : 0o644 })
  fs.renameSync(temporary, join(folder, name))
}
const shown = relative('', folder) || '.'
console.log(`Install it anywhere, also offline:
  npm install -g ${shown.startsWith('..') ? folder : `./${shown}`}
  npx --yes file:${join(folder, tarball)} deploy`)
