/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Platform devices for the fixtures' drivers, as long as this module is loaded:
 *
 *   devices=NAME[:COUNT][@PARENT],…
 *
 * makes COUNT (1) devices NAME.0, NAME.1, … with MODALIAS=platform:NAME for each NAME. They are children of PCI
 * devices: of PARENT, an address such as 0000:00:1f.2, or evenly spread over all of these in the order of their paths.
 * `udevadm trigger` goes in that order, and what comes first or last there is met before or after all real devices.
 * One device alone is in the middle. */

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/err.h>
#include <linux/kernel.h>
#include <linux/kobject.h>
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/platform_device.h>
#include <linux/slab.h>
#include <linux/sort.h>
#include <linux/string.h>

#define NAMES_MAX 256
#define DEVICES_MAX 16384

static char *devices[NAMES_MAX];
static int n_names;
module_param_array(devices, charp, &n_names, 0444);
MODULE_PARM_DESC(devices, "NAME[:COUNT][@PARENT] of the devices to make");

struct parent {
        struct pci_dev *pci;
        char *path;
};

struct group {
        const char *name;
        unsigned int count;
        const char *parent;             /* NULL: spread them */
};

static struct parent *parents;
static unsigned int n_parents;

static struct platform_device **made;
static unsigned int n_made;

static int parent_compare(const void *a, const void *b)
{
        const struct parent *x = a, *y = b;

        return strcmp(x->path, y->path);
}

static void parents_forget(void)
{
        while (n_parents > 0) {
                pci_dev_put(parents[--n_parents].pci);
                kfree(parents[n_parents].path);
        }
        kfree(parents);
}

static int parents_find(void)
{
        struct pci_dev *pci = NULL;
        unsigned int n = 0;

        for_each_pci_dev(pci)
                n++;

        parents = kcalloc(n, sizeof(*parents), GFP_KERNEL);
        if (!parents)
                return -ENOMEM;

        for_each_pci_dev(pci) {
                if (n_parents == n) {
                        pci_dev_put(pci); /* one has just been plugged in */
                        break;
                }

                parents[n_parents] = (struct parent) { pci_dev_get(pci), kobject_get_path(&pci->dev.kobj, GFP_KERNEL) };
                if (!parents[n_parents++].path) {
                        pci_dev_put(pci);
                        return -ENOMEM;
                }
        }

        if (n_parents == 0) {
                pr_err("there are no PCI devices to be the parents of others\n");
                return -ENODEV;
        }

        sort(parents, n_parents, sizeof(*parents), parent_compare, NULL);
        return 0;
}

static struct device *parent_named(const char *address)
{
        for (unsigned int i = 0; i < n_parents; i++)
                if (strcmp(pci_name(parents[i].pci), address) == 0)
                        return &parents[i].pci->dev;

        pr_err("there is no PCI device %s\n", address);
        return NULL;
}

/* In the middle of the share of the parents that is the next device's, of n. */
static struct device *parent_next(unsigned int n)
{
        return &parents[(2 * n_made + 1) * n_parents / (2 * n)].pci->dev;
}

static int devices_make(const struct group *groups, unsigned int n)
{
        made = kvcalloc(n, sizeof(*made), GFP_KERNEL);
        if (!made)
                return -ENOMEM;

        for (const struct group *g = groups; g < groups + n_names; g++)
                for (unsigned int id = 0; id < g->count; id++) {
                        struct device *parent = g->parent ? parent_named(g->parent) : parent_next(n);
                        struct platform_device *device;

                        if (!parent)
                                return -ENODEV;

                        device = platform_device_register_data(parent, g->name, id, NULL, 0);
                        if (IS_ERR(device)) {
                                pr_err("cannot make %s.%u: %ld\n", g->name, id, PTR_ERR(device));
                                return PTR_ERR(device);
                        }
                        made[n_made++] = device;
                }

        pr_info("made %u devices\n", n_made);
        return 0;
}

static void devices_remove(void)
{
        while (n_made > 0)
                platform_device_unregister(made[--n_made]);
        kvfree(made);
}

static int group_parse(char *text, struct group *ret)
{
        char *parent = strchr(text, '@'), *count;

        if (parent)
                *parent++ = 0;
        count = strchr(text, ':');
        if (count)
                *count++ = 0;

        *ret = (struct group) { text, 1, parent };
        if (count && (kstrtouint(count, 10, &ret->count) < 0 || ret->count > DEVICES_MAX)) {
                pr_err("%s: wants a number up to %u after ':', not '%s'\n", text, DEVICES_MAX, count);
                return -EINVAL;
        }

        return 0;
}

static int __init fixture_bus_init(void)
{
        static struct group groups[NAMES_MAX] __initdata;
        unsigned int n = 0;
        int r;

        for (int i = 0; i < n_names; i++) {
                r = group_parse(devices[i], &groups[i]);
                if (r < 0)
                        return r;

                n += groups[i].count;
                if (n > DEVICES_MAX) {
                        pr_err("makes %u devices at most\n", DEVICES_MAX);
                        return -EINVAL;
                }
        }

        r = parents_find();
        if (r == 0)
                r = devices_make(groups, n);
        if (r < 0)
                devices_remove();
        parents_forget();
        return r;
}

static void __exit fixture_bus_exit(void)
{
        devices_remove();
}

module_init(fixture_bus_init);
module_exit(fixture_bus_exit);
MODULE_DESCRIPTION("Platform devices for fixtures");
MODULE_LICENSE("GPL");
