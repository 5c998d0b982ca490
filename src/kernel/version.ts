// The version of this installation.

/** The one in package.json, which the Worker does not bundle. */
export const VERSION = '0.1.0'
