/*
 * A sink in plain C: a line of text for each value, `step name value`, in the file `lines.txt` of the run folder.
 *
 * Each row is flushed before `log` returns, so that a crash of the process loses none. A resumed run deletes the rows that come again.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "altgrad_plugin.h"

typedef struct lines {
    FILE *file;
    char *path;
} lines;

static const altgrad_option options[] = {
    {
        .name = "file",
        .help = "File of the lines, in the run folder",
        .type = ALTGRAD_OPTION_TEXT,
        .text = "lines.txt",
    },
};

/* What a call of the C library left, as an error. */
static int32_t failed(altgrad_error *error) { return altgrad_fail(error, ALTGRAD_OTHER, strerror(errno)); }

static int32_t create(const altgrad_value *values, void **instance, altgrad_error *error) {
    const char *name = values[0].text;
    if (name[0] == '\0' || strchr(name, '/')) return altgrad_fail(error, ALTGRAD_CONFIG, "`file` must be a name in the run folder");
    lines *made = calloc(1, sizeof *made);
    if (!made || !(made->path = malloc(strlen(name) + 1))) return free(made), failed(error);
    strcpy(made->path, name);
    *instance = made;
    return ALTGRAD_OK;
}

static void destroy(void *instance) {
    lines *self = instance;
    if (self->file) fclose(self->file);
    free(self->path);
    free(self);
}

/* The text of the file without rows from `step` on, and without a line that a crash cut; NULL if it cannot be read. */
static char *kept(const char *path, uint64_t step, size_t *size) {
    FILE *file = fopen(path, "rb");
    char *text = calloc(1, 1), *grown;
    size_t read = 0, space = 0;
    for (size_t got = 1; text && file && got > 0; read += got) {
        if (space - read < 2) {
            if (!(grown = realloc(text, space = 2 * space + 4096))) free(text);
            if (!(text = grown)) break;
        }
        got = fread(text + read, 1, space - read - 1, file);
    }
    if (file) fclose(file);
    *size = 0;
    for (char *line = text, *end; line && (end = memchr(line, '\n', read - (size_t)(line - text))); line = end + 1) {
        if (strtoull(line, NULL, 10) >= step) break;
        *size = (size_t)(end + 1 - text);
    }
    return text;
}

static int32_t open_run(void *instance, const altgrad_run *run, altgrad_error *error) {
    lines *self = instance;
    char *path = malloc(strlen(run->folder) + strlen(self->path) + 2), *text = NULL;
    size_t size = 0;
    if (!path) return failed(error);
    sprintf(path, "%s/%s", run->folder, self->path);
    if (self->file) fclose(self->file);
    if (run->resumes && !(text = kept(path, run->resume_step, &size))) return free(path), failed(error);
    self->file = fopen(path, "wb");
    free(path);
    const int written = self->file && fwrite(text ? text : "", 1, size, self->file) == size && !fflush(self->file);
    free(text);
    return written ? ALTGRAD_OK : failed(error);
}

static int32_t log_row(void *instance, uint64_t step, const altgrad_metric *metrics, uint64_t count, altgrad_error *error) {
    const lines *self = instance;
    if (!self->file) return altgrad_fail(error, ALTGRAD_OTHER, "the sink is not open");
    for (uint64_t i = 0; i < count; i++) {
        fprintf(self->file, "%llu ", (unsigned long long)step);
        for (const char *c = metrics[i].name; *c; c++) fputc(*c == '\n' || *c == '\r' ? ' ' : *c, self->file);
        char number[40], *comma;
        snprintf(number, sizeof number, "%.17g", metrics[i].value);
        /* Locales differ in the decimal point. */
        if ((comma = strchr(number, ','))) *comma = '.';
        fprintf(self->file, " %s\n", number);
    }
    return fflush(self->file) || ferror(self->file) ? failed(error) : ALTGRAD_OK;
}

static int32_t finish(void *instance, uint32_t outcome, altgrad_error *error) {
    lines *self = instance;
    FILE *file = self->file;
    (void)outcome;
    self->file = NULL;
    return file && fclose(file) ? failed(error) : ALTGRAD_OK;
}

static const altgrad_sink_v1 table = {
    .struct_size = sizeof(altgrad_sink_v1),
    .option_count = 1,
    .id = "lines-c",
    .version = "1.0.0",
    .summary = "Lines of text, in C",
    .options = options,
    .create = create,
    .destroy = destroy,
    .open = open_run,
    .log = log_row,
    .finish = finish,
};

ALTGRAD_EXPORT_SINKS(&table);
