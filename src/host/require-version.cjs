// Loaded before everything else: an older Node cannot run TypeScript, and says only ERR_UNKNOWN_FILE_EXTENSION.
// The versions are also in `engines` of package.json.
const [major, minor] = process.versions.node.split('.').map(Number)
const isSupported = (major === 22 && minor >= 19) || (major === 24 && minor >= 2) || major > 24
if (!isSupported) {
  console.error(
    `This command needs Node 22.19 or newer (24.2 or newer of Node 24); this is Node ${process.versions.node}. ` +
      'Install a newer one, or run `npm ci` without `--omit=dev`, which brings its own.',
  )
  process.exit(1)
}
