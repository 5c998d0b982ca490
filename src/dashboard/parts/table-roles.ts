// The roles of the parts of a table. Rows of a phone are grids, which would be no table without these.
export const ROLES = {
  table: { role: 'table' },
  group: { role: 'rowgroup' },
  row: { role: 'row' },
  header: { role: 'rowheader' },
  cell: { role: 'cell' },
} as const
