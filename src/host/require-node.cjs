// Loaded before a command that runs from the sources.
require('./require-version.cjs')
require('./require-packages.cjs')
require('./resolve-drizzle-once.ts')
