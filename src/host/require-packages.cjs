// Loaded before anything that imports packages: without them, each runtime says where it looked, and not what to do.
try {
  require.resolve('zod')
} catch {
  console.error('The packages that this command needs are not installed. Run `npm ci` in the folder of the project.')
  process.exit(1)
}
