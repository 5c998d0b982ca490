// Makes the npm package of the command line: one file without dependencies. Run `npm run cli:package`.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { buildSync } from 'esbuild'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
/** commander is CommonJS, and calls `require` for modules of Node. */
const REQUIRE = `import{createRequire}from'node:module';const require=createRequire(import.meta.url);`

const { version, license } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as Record<string, string>
const folder = resolve(process.argv[2] ?? join(ROOT, 'dist/cli'))
mkdirSync(folder, { recursive: true })
buildSync({
  entryPoints: [join(ROOT, 'src/cli/main.ts')],
  outfile: join(folder, 'slipway.mjs'),
  ...{ bundle: true, minify: true, platform: 'node', format: 'esm', target: 'node20.12' },
  banner: { js: REQUIRE },
  define: { 'process.env.SLIPWAY_CLI_VERSION': JSON.stringify(version) },
})
const manifest = {
  ...{ name: 'slipway', version, license, description: 'Deploys folders and operates deployments on Slipway.' },
  ...{ type: 'module', bin: { slipway: 'slipway.mjs' }, files: ['slipway.mjs'], engines: { node: '>=20.12' } },
}
writeFileSync(join(folder, 'package.json'), `${JSON.stringify(manifest, null, 2)}\n`)
