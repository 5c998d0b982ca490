// The version of this installation.

/** The one in package.json, which the Worker does not bundle. */
export const VERSION = '0.2.0-rc.1'
