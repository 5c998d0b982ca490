// The least level of a line, as forms choose it (pure).
export const LEVEL_OPTIONS = [
  { value: '', label: 'All levels' },
  { value: 'INFO', label: 'Info and above' },
  { value: 'WARNING', label: 'Warnings and errors' },
  { value: 'ERROR', label: 'Errors' },
  { value: 'CRITICAL', label: 'Critical' },
]
export const describeLevel = (level: string): string =>
  LEVEL_OPTIONS.find(({ value }) => value === level)?.label ?? 'All levels'
